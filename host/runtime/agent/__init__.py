# SPDX-License-Identifier: Apache-2.0
"""A device over the network: the agent that serves it, and `RemoteDevice`, its client."""
