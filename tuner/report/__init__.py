# SPDX-License-Identifier: Apache-2.0
"""What a study found, as text, JSON and a page.

Imports `study` and `store`. `drawing` holds the charts and the page, which know nothing of studies.
"""
