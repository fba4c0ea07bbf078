# SPDX-License-Identifier: Apache-2.0
"""Which layer is measured next: DynaTune and its baselines on the same searches."""
