# SPDX-License-Identifier: Apache-2.0
"""From a float model to an int8 one in QDQ form: ranges, equalisation, bias correction.

`prepare_process` does it for a file in a process of its own, with limits of memory and time.
May import `read`.
"""
