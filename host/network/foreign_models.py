# SPDX-License-Identifier: Apache-2.0
"""Files of other frameworks: what each is, and how it becomes a file that is read here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import WorkloadError

_KERAS: Final = (
    "of Keras",
    (
        "write model.tflite with tf.lite.TFLiteConverter.from_keras_model(model).convert(), or "
        "model.onnx with model.export('model.onnx', format='onnx') of Keras 3"
    ),
)
_TENSORFLOW: Final = (
    "of TensorFlow",
    (
        "write model.tflite with tf.lite.TFLiteConverter.from_saved_model(folder).convert(), or "
        "model.onnx with `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx`"
    ),
)
_WEIGHTS: Final = (
    "of weights, without the network that they belong to",
    (
        "load them into the network in PyTorch, and write it with torch.onnx.export(model, inputs, "
        "'model.onnx')"
    ),
)
_PADDLE: Final = (
    "of PaddlePaddle",
    "write model.onnx with `paddle2onnx --model_dir FOLDER --save_file model.onnx`",
)


def _of(maker: str) -> tuple[str, str]:
    return f"of {maker}", "export the network that it was made of to ONNX or TensorFlow Lite"


FOREIGN: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys((".h5", ".hdf5", ".keras"), _KERAS),
    **dict.fromkeys((".pb", ".meta"), _TENSORFLOW),
    **dict.fromkeys((".safetensors", ".ckpt", ".weights", ".gguf", ".npz", ".npy"), _WEIGHTS),
    **dict.fromkeys((".pdmodel", ".pdiparams"), _PADDLE),
    **dict.fromkeys((".caffemodel", ".prototxt"), _of("Caffe")),
    **dict.fromkeys((".engine", ".plan", ".trt"), _of("TensorRT")),
    **dict.fromkeys((".mlmodel", ".mlpackage"), _of("Core ML")),
    **dict.fromkeys((".xml", ".bin"), _of("OpenVINO")),
    ".xmodel": _of("Vitis AI"),
    ".hef": _of("Hailo"),
    ".param": _of("ncnn"),
    ".rknn": _of("RKNN"),
    ".mnn": _of("MNN"),
}
"""Endings of files: what such a file is, and what to do with it."""


def foreign_model(path: Path) -> WorkloadError | None:
    """The error for a file of another framework; None: its ending is of none."""
    known = FOREIGN.get(path.suffix.lower())
    if known is None:
        return None
    kind, remedy = known
    return WorkloadError(
        f"must be a file of ONNX, TensorFlow Lite or torch.export; this is one {kind}",
        field=str(path),
        remedy=remedy,
    )
