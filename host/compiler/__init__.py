# SPDX-License-Identifier: Apache-2.0
"""From a model file to one program: read, quantise, divide, lower, pack, run.

`pipeline` shows the steps in order. Imports every other room of `host`.
"""
