# SPDX-License-Identifier: Apache-2.0
"""Pictures in, and what a network says of them out: classes, boxes, areas and keypoints."""
