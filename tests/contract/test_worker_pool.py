# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine keep the contract of executors."""

from typing import Any

from contract.executor_contract import ExecutorContract

from tilewright.sim.executor.protocol import Executor
from tilewright.sim.executor.worker import WorkerPool


class TestWorkerPool(ExecutorContract):
    def make(self, workers: int, **limits: Any) -> Executor:
        return WorkerPool(workers, **limits)
