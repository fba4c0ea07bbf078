# SPDX-License-Identifier: Apache-2.0
"""The extras of the distribution: what each is for, whether it is there, how to install it.

Packages of an extra are imported where they are used. What imports one that is missing fails with
`ModuleNotFoundError`, which `explained` turns into the line that says what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from tilewright.host.common.errors import ToolError


@dataclass(frozen=True, kw_only=True)
class Extra:
    """One extra."""

    purpose: str  # what works with it
    packages: Mapping[str, str]  # distributions by the module that is imported

    def missing(self, *modules: str) -> list[str]:
        """Distributions that are not installed, of these modules; by default of all."""
        wanted = modules or self.packages
        return [self.packages[name] for name in wanted if importlib.util.find_spec(name) is None]


EXTRAS: Final[Mapping[str, Extra]] = {
    "network": Extra(
        purpose="whole networks: compile, run, tune of a model file",
        packages={
            "onnx_ir": "onnx-ir",
            "onnxruntime": "onnxruntime",
            "onnxscript": "onnxscript",
            "PIL": "pillow",
            "tflite": "tflite",
            "torch": "torch",
            "tvm": "apache-tvm",
            "tvm_ffi": "apache-tvm-ffi",
        },
    ),
    "vision": Extra(
        purpose="boxes that overlap, videos and cameras: run --task",
        packages={"cv2": "opencv-python-headless"},
    ),
    "search": Extra(
        purpose="tuners and allocators that learn, and other libraries' tuners",
        packages={
            "botorch": "botorch",
            "cmaes": "cmaes",
            "emcee": "emcee",
            "optuna": "optuna",
            "sklearn": "scikit-learn",
            "torch": "torch",
            "xgboost": "xgboost-cpu",
        },
    ),
    "nevergrad": Extra(
        purpose="tuner nevergrad-de (brings directsearch, GPL-3.0)",
        packages={"nevergrad": "nevergrad"},
    ),
    "agent": Extra(
        purpose="tilewright agent, where the program openssl is missing",
        packages={"cryptography": "cryptography"},
    ),
    "plot": Extra(
        purpose="figures and data frames of studies: Study.plot_convergence, export --plot",
        packages={"matplotlib": "matplotlib", "pandas": "pandas"},
    ),
    "postgres": Extra(
        purpose="trials on a PostgreSQL server: --store postgresql://...",
        packages={"psycopg": "psycopg"},
    ),
    "ray": Extra(purpose="measuring on a Ray cluster: --ray", packages={"ray": "ray"}),
    "rl": Extra(
        purpose="mapping search as environments: Gymnasium, PettingZoo",
        packages={"gymnasium": "gymnasium", "pettingzoo": "pettingzoo"},
    ),
}
"""Every extra that a user of the commands may want, by name."""

_INDIRECT: Final[Mapping[str, str]] = {"gpytorch": "search", "scipy": "search"}
"""Modules that this package imports and that come with an extra's packages."""


def install_line(*extras: str) -> str:
    """The command that installs extras; PyTorch's is as large as its index makes it."""
    return f"pip install 'tilewright[{','.join(extras)}]'"


def needed(module: str) -> ModuleType:
    """A module of an extra; one that is not installed is a `ToolError`."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explained(error) or error from error


def explained(error: ModuleNotFoundError) -> ToolError | None:
    """What to install for a module that was not found; None when no extra brings it."""
    module = (error.name or "").split(".")[0]
    name = next((n for n, extra in EXTRAS.items() if module in extra.packages), "")
    name = name or _INDIRECT.get(module, "")
    if not name:
        return None
    return ToolError(
        f"this needs the package {EXTRAS[name].packages.get(module, module)}, "
        f"which is not installed, of the extra {name}",
        remedy=install_line(name),
    )
