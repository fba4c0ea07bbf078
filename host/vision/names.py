# SPDX-License-Identifier: Apache-2.0
"""What a network may be for, how its outputs may look, and how pictures become its input."""

from __future__ import annotations

from tilewright.host.common.str_enum import StrEnum


class Task(StrEnum):
    """What a network is for."""

    CLASSIFY = "classify"
    DETECT = "detect"
    SEGMENT = "segment"
    KEYPOINTS = "keypoints"


class Fit(StrEnum):
    """How a picture of other proportions becomes a network's input."""

    CROP = "crop"  # covers the input; what hangs over is cut off
    LETTERBOX = "letterbox"  # lies whole in the input, between grey bars
    STRETCH = "stretch"  # fills the input, distorted


class Head(StrEnum):
    """The form of a detector's outputs."""

    AUTO = "auto"  # told by the shapes
    YOLOV5 = "yolov5"  # (1, 3 * cells, 5 + C): decoded, with objectness; v7 as well
    YOLOV5_RAW = "yolov5-raw"  # one (1, 3 * (5 + C), h, w) or (1, 3, h, w, 5 + C) a stride
    YOLO_NAS = "yolo-nas"  # boxes (1, cells, 4) as corners in pixels, scores (1, cells, C)
    YOLOX = "yolox"  # (1, cells, 5 + C): offsets in strides, with objectness
    YOLOV8 = "yolov8"  # (1, 4 + C + extras, cells): decoded; v9, 11 and 12 as well
    YOLOV8_RAW = "yolov8-raw"  # (1, 4 * bins + C, h, w) a stride, or bins and scores apart
    END2END = "end2end"  # (1, n, 6 + extras): corners, score, class; v10 and exports with NMS
    SSD = "ssd"  # boxes (1, n, 4) and scores (1, n, C), corners in 0..1, class 0 is background
    TFLITE = "tflite"  # boxes (1, n, 4) as top, left, ..., classes, scores (1, n), count
    DETR = "detr"  # logits (1, n, C + 1) and boxes (1, n, 4) as centre and size in 0..1
