# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime raises and prints becomes one error."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import numpy as np

from tilewright.host.common.errors import WorkloadError, reason_of


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
