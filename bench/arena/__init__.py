# SPDX-License-Identifier: Apache-2.0
"""The arena compares all tuners under equal conditions, against the exhaustive optimum.

`tasks` names what is searched, `tables` knows the cycles of every point of it (exact twin),
`replay` runs one tuner against a table, `runner` runs many, `statistics`, `prices` and `summary`
turn runs into figures, `plots` and `document` show them, `confirm` checks winners on the RTL.
"""
