# SPDX-License-Identifier: Apache-2.0
"""One holder at a time, in the order of waiting."""

import threading
import time

import pytest

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent.lease import Lease
from tilewright.host.runtime.agent.protocol import ConnectionLostError


def here() -> None:
    pass


def wait_until(condition) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.005)


def test_a_second_client_is_refused_with_the_holders_name():
    lease = Lease()
    lease.take("first", wait_seconds=0, check_waits=here)
    with pytest.raises(DeviceError, match=r"must be free, not 'leased to first for 0 s'.*--wait"):
        lease.take("second", wait_seconds=0, check_waits=here)
    lease.give_back()
    lease.take("second", wait_seconds=0, check_waits=here)
    assert lease.holder == "second"


def test_those_who_wait_get_it_in_their_order_and_never_two_at_once():
    lease, order, together = Lease(), [], []
    lease.take("0", wait_seconds=0, check_waits=here)

    def client(name: str) -> None:
        lease.take(name, wait_seconds=10, check_waits=here)
        order.append(name)
        time.sleep(0.01)
        together.append(lease.holder)
        lease.give_back()

    threads = []
    for number in range(1, 5):
        threads.append(threading.Thread(target=client, args=(str(number),)))
        threads[-1].start()
        wait_until(lambda count=number: len(lease._waiting) == count)
    lease.give_back()
    for thread in threads:
        thread.join(10)
    assert order == together == ["1", "2", "3", "4"]
    assert lease.holder == ""


def test_nobody_overtakes_those_who_wait():
    for _ in range(20):
        lease = Lease()
        lease.take("holder", wait_seconds=0, check_waits=here)
        waiting = threading.Thread(
            target=lease.take, args=("waiting",), kwargs={"wait_seconds": 10, "check_waits": here}
        )
        waiting.start()
        wait_until(lambda held=lease: len(held._waiting) == 1)
        lease.give_back()
        with pytest.raises(DeviceError, match="must be free"):
            lease.take("hurried", wait_seconds=0, check_waits=here)
        waiting.join(10)
        assert lease.holder == "waiting"


def test_a_client_that_leaves_while_it_waits_does_not_hold_up_the_next():
    lease, gone, errors = Lease(), threading.Event(), []

    def check() -> None:
        if gone.is_set():
            raise ConnectionLostError("it left")

    lease.take("holder", wait_seconds=0, check_waits=here)

    def leaver() -> None:
        try:
            lease.take("leaver", wait_seconds=60, check_waits=check)
        except ConnectionLostError as error:
            errors.append(error)

    thread = threading.Thread(target=leaver)
    thread.start()
    wait_until(lambda: len(lease._waiting) == 1)
    gone.set()
    thread.join(10)
    assert len(errors) == 1
    lease.give_back()
    lease.take("next", wait_seconds=0, check_waits=here)
