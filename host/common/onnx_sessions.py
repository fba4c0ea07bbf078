# SPDX-License-Identifier: Apache-2.0
"""Sessions of ONNX Runtime, and one error for what it raises and prints."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilewright.host.common.errors import WorkloadError, reason_of

if TYPE_CHECKING:
    import onnx

_WRONG: Final = ("Pad_Fusion",)
"""Optimisations that change results: zeros around a MaxPool become its own padding (1.31)."""


def open_session(
    model: onnx.ModelProto | bytes,
    *,
    optimised: bool | str = True,
    threads: int = 1,
    without: Sequence[str] = (),
    entries: Mapping[str, str] | None = None,
) -> Any:
    """A session on the CPU that logs nothing.

    Args:
        model: what it runs.
        optimised: optimisations that keep results; a path: only basic ones, and the model that they
            make is written there.
        threads: of one operator; 0: as many as cores.
        without: optimisations that are left out.
        entries: settings of the session by their key.

    Raises:
        Exception: of a kind of ONNX Runtime, if it refuses the model.
    """
    if optimised is True:
        # A file may hold the names that optimisations give: then it runs without them.
        with contextlib.suppress(Exception):  # ONNX Runtime raises kinds of its own
            return _session(model, optimised, threads, without, entries)
        optimised = False
    return _session(model, optimised, threads, without, entries)


def _session(
    model: onnx.ModelProto | bytes,
    optimised: bool | str,
    threads: int,
    without: Sequence[str],
    entries: Mapping[str, str] | None,
) -> Any:
    import onnxruntime  # noqa: PLC0415  (heavy, and only needed here)

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    elif isinstance(optimised, str):
        options.graph_optimization_level = levels.ORT_ENABLE_BASIC
        options.optimized_model_filepath = optimised
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=[*_WRONG, *without] if optimised else None,
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Run ONNX Runtime without its advice and progress, and with one kind of error."""
    import onnxruntime  # noqa: PLC0415  (heavy, and only needed here)

    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(4)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except MemoryError:
        raise
    except Exception as error:  # ONNX Runtime raises kinds of its own
        raise WorkloadError(
            f"ONNX Runtime must be able to quantise it ({reason_of(error)})",
            field="model",
            remedy="check model and calibration data with onnxruntime",
        ) from error
    finally:
        onnxruntime.set_default_logger_severity(2)
        logging.disable(level)
