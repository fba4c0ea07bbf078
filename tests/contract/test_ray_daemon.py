# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of its own, whose daemon dies (apart from tests that keep a cluster open)."""

import pytest

from tilewright.host.common.errors import EnvironmentFaultError
from tilewright.sim.executor.ray_executor import RayExecutor

pytest.importorskip("ray", reason="Ray has no package for this platform")


@pytest.mark.slow
def test_a_dead_daemon_is_named_before_anybody_looks_for_processors() -> None:
    """After the end of `raylet` no worker starts, and 120 s later free CPUs were asked for."""
    with RayExecutor("local", 1) as executor:
        executor.submit("warm", pow, 2, 2)
        assert [outcome.value for outcome in executor.results()] == [4]
        (daemon,) = executor._ray._private.worker._global_node.all_processes["raylet"]
        daemon.process.kill()
        for slot in executor._slots:
            executor._kill(slot)
        executor._slots.clear()
        executor.submit("never", pow, 2, 2)
        with pytest.raises(EnvironmentFaultError, match=r"daemon|cluster failed"):
            list(executor.results())
