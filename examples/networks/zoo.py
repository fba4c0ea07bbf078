# SPDX-License-Identifier: Apache-2.0
"""The zoo's architectures with random weights, as `tilewright bench networks --zoo` measures them.

What is measured is how a network divides and how long it takes. Trained members of the zoo are in
`networks.public`.
"""

from __future__ import annotations

from networks.convnext import ConvNeXtTiny
from networks.densenet import DenseNet121
from networks.efficientnet import EfficientNetB0
from networks.gpt import Decoder
from networks.keyword_spotter import KeywordSpotter
from networks.mobilenet_v3 import MobileNetV3Small
from networks.network import Network
from networks.shufflenet import ShuffleNetV2
from networks.swin import SwinTiny
from networks.transformer import Encoder
from networks.vision_transformer import ViTTiny
from networks.yolo import YoloV5Nano, YoloV8Nano

_PHOTO = (1, 3, 224, 224)

ZOO: dict[str, Network] = {
    "efficientnet-b0": Network(build=EfficientNetB0, input_shape=_PHOTO),
    "mobilenet-v3-small": Network(build=MobileNetV3Small, input_shape=_PHOTO),
    "yolov5n-like": Network(build=YoloV5Nano, input_shape=(1, 3, 320, 320)),
    "yolov8n-like": Network(build=YoloV8Nano, input_shape=(1, 3, 320, 320)),
    "densenet121": Network(build=DenseNet121, input_shape=_PHOTO),
    "shufflenet-v2": Network(build=ShuffleNetV2, input_shape=_PHOTO),
    "keyword-spotter": Network(build=KeywordSpotter, input_shape=(1, 40, 101)),
    "vit-tiny": Network(build=ViTTiny, input_shape=_PHOTO),
    "bert-tiny": Network(build=Encoder, input_shape=(1, 128, 128)),
    "gpt-block": Network(build=Decoder, input_shape=(1, 64, 256)),
    "convnext-t": Network(build=ConvNeXtTiny, input_shape=_PHOTO),
    "swin-t": Network(build=SwinTiny, input_shape=_PHOTO),
}
