# SPDX-License-Identifier: Apache-2.0
"""Charts and pages: inline SVG, tables and one style for every HTML report.

Knows nothing of studies: `tuner.report` and `bench` bring the figures. Imports the standard library
alone, so that a report needs no plotting package.
"""
