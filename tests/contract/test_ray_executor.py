# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of two nodes keeps the contract of executors, and studies on it take one course."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from contract.executor_contract import ExecutorContract, by_id
from support.jobs import node_after, own_pid
from support.search.analytic_oracle import Silent

from tilewright.host.common.errors import DeviceError, EnvironmentFaultError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.executor.protocol import Executor
from tilewright.sim.executor.ray_executor import RayExecutor
from tilewright.sim.executor.worker import WorkerPool
from tilewright.testing.analytic import BOARD, MEMORY
from tilewright.tuner.measure.oracle import DeviceOracle, rtl_identity
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.settings import StudySettings
from tilewright.tuner.study.study import run_study

ray = pytest.importorskip("ray", reason="Ray has no package for this platform")

TESTS = str(Path(__file__).resolve().parents[1])
OBJECT_STORE_BYTES = 80 << 20
TASKS = (conv2d("A", 6, 8, 8, 3, 1, 1), conv2d("B", 6, 8, 12, 1, 0, 1, count=2))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each; this process is their driver."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  (an extra: loaded when asked for)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([TESTS, *filter(None, sys.path)]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
        made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        made.add_node(**node)
        ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
class TestRayExecutor(ExecutorContract):
    def make(self, workers: int, **limits: Any) -> Executor:
        return RayExecutor("auto", workers, **limits)

    def test_uses_both_nodes(self) -> None:
        with RayExecutor("auto") as executor:
            assert executor.size == 2
            nodes: set[object] = set()
            for number in range(400):  # one worker may be ready long before the other
                executor.submit((number, 0), node_after, 0.2)
                executor.submit((number, 1), node_after, 0.2)
                nodes |= {outcome.value for outcome in executor.results()}
                if len(nodes) == 2:
                    return
        pytest.fail(f"two nodes, and all work was done on {nodes}")

    def test_workers_that_are_killed_while_they_start_are_replaced(self) -> None:
        with RayExecutor("auto", 1) as executor:
            executor.submit("a", os.getpid)
            for _ in range(4):  # more than may fail by themselves
                (slot,) = executor._slots
                ray.kill(slot.actor, no_restart=True)
                executor._step()
                executor._dispatch()
            (outcome,) = executor.results()
            assert outcome.ok

    def test_an_error_of_ray_itself_is_a_fault_of_the_environment(self, monkeypatch) -> None:
        with RayExecutor("auto", 1) as executor:
            executor.submit("a", os.getpid)

            def broken(*_: object, **__: object) -> None:
                raise RuntimeError("gone\nwith a long trace")

            monkeypatch.setattr(executor._ray, "wait", broken)
            with pytest.raises(EnvironmentFaultError, match="cluster failed") as caught:
                list(executor.results())
            assert "\n" not in str(caught.value)

    def test_a_worker_with_other_sources_is_refused(self) -> None:
        with RayExecutor("auto", 1, fingerprint=own_pid) as executor:
            executor.submit("never", pow, 2, 2)
            with pytest.raises(DeviceError, match="same Tilewright"):
                list(executor.results())


def settings() -> StudySettings:
    return StudySettings(
        model="net",
        tasks=TASKS,
        board=BOARD,
        memory=MEMORY,
        base=load_hwconfig("tiny-4x4"),
        configs=1,
        budget=24,
        batch=6,
        tuner="random",
        seed=3,
    )


def course(folder: Path, executor: Executor, listener: Silent | None = None) -> list[Any]:
    """What a study on the RTL does, times left out."""
    oracle = DeviceOracle("rtl", executor)
    try:
        with Store(folder / "s.sqlite") as store:
            run_study(
                "s",
                settings(),
                store=store,
                oracle=oracle,
                rules=host_rules(),
                listener=listener or Silent(),
            )
            trials = store.trials(store.study("s").id)
    finally:
        oracle.close()
    return [
        (t.sequence, t.task, t.schedule, t.measurement.status, t.measurement.counters)
        for t in trials
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[Any]:
    """The study with one worker of this machine."""
    found = course(tmp_path_factory.mktemp("alone"), WorkerPool(1))
    assert len(found) == 24
    assert len({str(counters) for *_, counters in found}) > 5
    return found


def test_a_study_takes_one_course_with_any_number_of_workers(tmp_path: Path, alone) -> None:
    assert course(tmp_path, WorkerPool(2, retries=1)) == alone


@pytest.mark.usefixtures("cluster")
def test_a_study_takes_the_same_course_on_a_cluster(tmp_path: Path, alone) -> None:
    assert course(tmp_path, RayExecutor("auto", 2, fingerprint=rtl_identity)) == alone


class Killer(Silent):
    """Stops a worker after some trials, so that it keeps its trial, and kills it a second later."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after
        self._others = {worker.pid for worker in _workers()}  # of earlier tests, still ending

    def trial(self, sequence, proposal, measurement, *, replayed) -> None:
        super().trial(sequence, proposal, measurement, replayed=replayed)
        if len(self.trials) == self._after:
            worker = next(w for w in _workers() if w.pid not in self._others and _greeted(w))
            worker.suspend()
            threading.Timer(1.0, worker.kill).start()


class Watched(RayExecutor):
    """Remembers the jobs that lost their worker."""

    def __init__(self, *words: Any, **limits: Any) -> None:
        super().__init__(*words, **limits)
        self.lost: list[Any] = []

    def _crashed(self, slot, job, error):
        self.lost.append(job and job.job_id)
        return super()._crashed(slot, job, error)


RUNNER = "ray::_Runner"
"""How Ray names a worker of an executor."""


def _greeted(worker: psutil.Process) -> bool:
    """Whether a worker is up: one that is stopped before that holds no trial to lose."""
    return not worker.name().endswith(".hello")


def _workers() -> list[psutil.Process]:
    """Workers of this process: other tests may have clusters of their own."""
    family = psutil.Process().children(recursive=True)
    found = []
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name().startswith(RUNNER):
                found.append(process)
    return found


@pytest.mark.usefixtures("cluster")
def test_a_worker_killed_in_the_middle_of_a_trial_changes_nothing(tmp_path: Path, alone) -> None:
    executor = Watched("auto", 2, fingerprint=rtl_identity)
    assert course(tmp_path, executor, Killer(after=7)) == alone
    lost = [str(job) for job in executor.lost if job is not None]  # None: while it started
    assert lost
    assert all(job.startswith("trial-") for job in lost)


@pytest.mark.slow
def test_a_node_that_is_lost_costs_no_job(cluster: Any) -> None:
    extra = cluster.add_node(
        num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, resources={"extra": 1}
    )
    try:
        with RayExecutor("auto", 3, retries=2) as executor:
            for number in range(12):
                executor.submit(number, node_after, 0.5)
            loss = threading.Timer(2.0, cluster.remove_node, [extra], {"allow_graceful": False})
            loss.start()
            outcomes = by_id(executor)
            loss.join()
    finally:
        if extra in cluster.worker_nodes:
            cluster.remove_node(extra, allow_graceful=False)
    assert len(outcomes) == 12
    assert all(outcome.ok for outcome in outcomes.values())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nohost.invalid:6379", "[::1]:1"])
def test_an_address_without_a_cluster_is_refused_at_once_in_one_line(
    address, capfd, monkeypatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(DeviceError, match=r"no Ray cluster answers.*ray start") as caught:
        RayExecutor(address)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
