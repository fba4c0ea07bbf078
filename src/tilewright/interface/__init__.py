# SPDX-License-Identifier: Apache-2.0
"""What `import tilewright as tw` offers beyond the records of the rooms below: whole tasks by name.

Public are the names in `tilewright.__all__`. These modules put rooms together and own no logic of
theirs; they import every layer but the command line.
"""
