# SPDX-License-Identifier: Apache-2.0
"""The ids of the environments in Gymnasium's registry, and what is said where it is missing.

PettingZoo has no registry: `parallel_env` makes its environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tilewright.host.common.extras import explained

if TYPE_CHECKING:
    from tilewright.tuner.mapping.environments.multi_agent import MappingParallelEnv

ENVIRONMENT: Final = "tilewright/Mapping-v0"

_MODULE: Final = "tilewright.tuner.mapping.environments.single_agent"


def register_environments() -> None:
    """Give the environment its id; a second time changes nothing."""
    try:
        from gymnasium.envs import registration  # noqa: PLC0415  (of the extra `rl`)
    except ModuleNotFoundError as error:
        raise explained(error) or error from error
    if ENVIRONMENT not in registration.registry:
        registration.register(
            ENVIRONMENT,
            entry_point=f"{_MODULE}:MappingEnv",
            vector_entry_point=f"{_MODULE}:MappingVectorEnv",
        )


def parallel_env(**arguments: Any) -> MappingParallelEnv:
    """PettingZoo's environment; arguments as of `MappingParallelEnv`."""
    try:
        from tilewright.tuner.mapping.environments.multi_agent import (  # noqa: PLC0415  (of `rl`)
            MappingParallelEnv,
        )
    except ModuleNotFoundError as error:
        raise explained(error) or error from error
    return MappingParallelEnv(**arguments)
