# SPDX-License-Identifier: Apache-2.0
"""The compiler of whole networks: a model goes in, a `.tw` file for one configuration comes out.

`pipeline` reads top to bottom and names the room of each step; `tasks` lists the layers of a
network for the tuner. May import the other rooms of `host`.
"""
