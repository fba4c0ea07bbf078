# SPDX-License-Identifier: Apache-2.0
"""A device over the network: the agent serves it, and `RemoteDevice` is the client."""
