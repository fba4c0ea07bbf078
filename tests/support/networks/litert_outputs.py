# SPDX-License-Identifier: Apache-2.0
"""Outputs of LiteRT's kernels for members of every operator, written beside this file.

Tests compare with them where LiteRT is not installed. To write them anew:

    pip install ai-edge-litert && PYTHONPATH=tests python -m support.networks.litert_outputs
"""

import io
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from support.networks.tflite_members import NAMES, Member, drawn

FILE = Path(__file__).with_name("litert_outputs.npz")
RECORDED = (*NAMES, "network")

_NOT_OF_REFERENCE = ("sum-int8", "elu-float32", "elu-int8")
"""The reference SUM of 2.3 takes negative sums for large ones, and there is no reference ELU."""

INSTALLED = find_spec("ai_edge_litert") is not None


def recorded_member(name: str) -> Member:
    """The member whose outputs are on record."""
    return drawn(name, np.random.default_rng(RECORDED.index(name)))


def litert(member: Member, name: str) -> list[np.ndarray]:
    """What LiteRT computes."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415  (optional)

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kernels = plain if name in _NOT_OF_REFERENCE else OpResolverType.BUILTIN_REF
    interpreter = Interpreter(
        model_content=member.file, experimental_op_resolver_type=kernels, num_threads=1
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), member.inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def outputs_on_record() -> Iterator[tuple[str, list[np.ndarray]]]:
    """Names of members with their outputs."""
    with np.load(FILE) as found:
        for name in RECORDED:
            count = sum(key.rpartition("/")[0] == name for key in found.files)
            yield name, [found[f"{name}/{place}"] for place in range(count)]


def main() -> None:
    """Write the file."""
    arrays = {
        f"{name}/{place}": array
        for name in RECORDED
        for place, array in enumerate(litert(recorded_member(name), name))
    }
    whole = io.BytesIO()
    np.savez_compressed(whole, **arrays)
    FILE.write_bytes(whole.getvalue())
    elements = sum(array.size for array in arrays.values())
    print(f"{len(RECORDED)} members, {elements} elements, {FILE.stat().st_size} bytes")  # noqa: T201  (a script's report)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
