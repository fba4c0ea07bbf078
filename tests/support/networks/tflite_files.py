# SPDX-License-Identifier: Apache-2.0
"""Writes TensorFlow Lite files, with the functions of the package that reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

BUILTINS = {name: n for name, n in vars(tflite.BuiltinOperator).items() if isinstance(n, int)}
TYPES = {
    name.lower(): n for name, n in vars(tflite.TensorType).items() if isinstance(n, int)
}  # fmt: skip
ALIGNMENT = 16


@dataclass
class TfliteFile:
    """A file in the making; tensors go by number."""

    version: int = 3
    subgraphs: int = 1
    identifier: bytes = b"TFL3"
    tensors: list[dict[str, Any]] = field(default_factory=list)
    operators: list[tuple[str, Sequence[int], Sequence[int], str, dict]] = field(
        default_factory=list
    )

    def tensor(self, shape: Sequence[int], dtype: Any = "float32", **more: Any) -> int:
        """A tensor; `more`: scale, zero, axis, data, name, signature, buffer."""
        self.tensors.append({"shape": tuple(shape), "dtype": str(dtype), **more})
        return len(self.tensors) - 1

    def constant(self, data: Any, **more: Any) -> int:
        """A constant tensor."""
        data = np.asarray(data)
        return self.tensor(data.shape, data.dtype, data=data, **more)

    def add(
        self, kind: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "", **options
    ) -> None:
        """An operator, with its table of options."""
        self.operators.append((kind, inputs, outputs, table, options))

    def written(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file."""
        return _Writer(self).written(inputs, outputs)


class _Writer:
    def __init__(self, file: TfliteFile) -> None:
        self.file, self.builder = file, flatbuffers.Builder(1024)

    def table(self, kind: str, **fields: Any) -> int:
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            if value is not None:
                getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return getattr(tflite, f"{kind}End")(self.builder)

    def offsets(self, values: Sequence[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return self.builder.EndVector()

    def numbers(self, values: Any, dtype: str = "int32") -> int:
        return self.builder.CreateNumpyVector(np.array(values, dtype).reshape(-1))

    def buffer(self, data: np.ndarray | None) -> int:
        if data is None:
            return self.table("Buffer")
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.builder.StartVector(1, raw.size, ALIGNMENT)
        self.builder.head = self.builder.head - raw.size
        self.builder.Bytes[self.builder.head : self.builder.head + raw.size] = raw.tobytes()
        return self.table("Buffer", Data=self.builder.EndVector())

    def quantisation(self, tensor: dict[str, Any]) -> int | None:
        if "scale" not in tensor:
            return None
        scale = np.atleast_1d(np.asarray(tensor["scale"], np.float32))
        zero = np.broadcast_to(np.asarray(tensor.get("zero", 0), np.int64), scale.shape)
        vectors = {
            "Scale": self.numbers(scale, "float32"),
            "ZeroPoint": self.numbers(zero, "int64"),
        }
        return self.table(
            "QuantizationParameters", **vectors, QuantizedDimension=tensor.get("axis", 0)
        )

    def options(self, kind: str, options: dict[str, Any]) -> int:
        fields = {
            name: self.numbers(value) if isinstance(value, list | tuple) else value
            for name, value in options.items()
        }
        return self.table(kind, **fields)

    def written(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        file = self.file
        buffers = [self.table("Buffer"), *(self.buffer(t.get("data")) for t in file.tensors)]
        tensors = []
        for number, tensor in enumerate(file.tensors):
            signature = tensor.get("signature")
            tensors.append(
                self.table(
                    "Tensor",
                    Name=self.builder.CreateString(tensor.get("name", f"t{number}")),
                    Quantization=self.quantisation(tensor),
                    Shape=self.numbers(tensor["shape"]),
                    ShapeSignature=None if signature is None else self.numbers(signature),
                    HasRank=True,
                    Type=TYPES.get(tensor["dtype"], tensor["dtype"]),
                    Buffer=tensor.get("buffer", number + 1),
                )
            )
        kinds = list(dict.fromkeys(kind for kind, *_ in file.operators))
        operators = []
        for kind, read, made, table, options in file.operators:
            operators.append(
                self.table(
                    "Operator",
                    Inputs=self.numbers(read),
                    Outputs=self.numbers(made),
                    BuiltinOptions=self.options(table, options) if table else None,
                    BuiltinOptionsType=getattr(tflite.BuiltinOptions, table) if table else None,
                    OpcodeIndex=kinds.index(kind),
                )
            )
        codes = []
        for kind in kinds:
            number = BUILTINS.get(kind, BUILTINS["CUSTOM"])
            name = self.builder.CreateString(kind) if kind not in BUILTINS else None
            codes.append(
                self.table(
                    "OperatorCode", CustomCode=name, BuiltinCode=number, Version=1,
                    DeprecatedBuiltinCode=min(number, 127),
                )
            )  # fmt: skip
        graph = self.table(
            "SubGraph", Tensors=self.offsets(tensors), Inputs=self.numbers(inputs),
            Outputs=self.numbers(outputs), Operators=self.offsets(operators),
        )  # fmt: skip
        model = self.table(
            "Model",
            OperatorCodes=self.offsets(codes),
            Subgraphs=self.offsets([graph] * file.subgraphs),
            Buffers=self.offsets(buffers),
            Version=file.version,
        )
        self.builder.Finish(model, file_identifier=file.identifier)
        return bytes(self.builder.Output())
