# SPDX-License-Identifier: Apache-2.0
"""One holder at a time, and results that stay until they are dropped."""

import os
import threading
import time

import pytest

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.runtime.agent import journal as journals
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.lease import Lease
from tilewright.host.runtime.agent.protocol import ConnectionLostError, ProtocolError


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


# -- Results stay until they are dropped, for the same request alone, and within bounds
ONE, OTHER = bytes(32), bytes(31) + b"x"


def trial(number: int) -> bytes:
    return number.to_bytes(16, "big")


def keep(journal, number, size=100, request=ONE):
    journal.keep(trial(number), request, {"number": number}, [bytes(size // 2), bytes(size // 2)])


def test_a_result_is_there_after_a_restart_until_it_is_dropped(tmp_path):
    keep(Journal(tmp_path / "j"), 1)
    journal = Journal(tmp_path / "j")
    found = journal.find(trial(1), ONE)
    assert (found.fields, found.body) == ({"number": 1}, bytes(100))
    assert journal.find(trial(2), ONE) is None
    journal.drop(trial(1))
    journal.drop(trial(1))
    assert journal.find(trial(1), ONE) is None
    assert list((tmp_path / "j").iterdir()) == []


def test_a_result_is_not_given_for_another_request(tmp_path):
    journal = Journal(tmp_path / "j")
    keep(journal, 1)
    with pytest.raises(ProtocolError, match="must be another one for each run"):
        journal.find(trial(1), OTHER)


@pytest.mark.parametrize("change", ["cut", "flip", "empty", "gone"])
def test_a_damaged_result_is_none(tmp_path, change):
    keep(Journal(tmp_path / "j"), 1)
    (path,) = (tmp_path / "j").iterdir()
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "flip": data[:40] + b"!" + data[41:]}.get(change, b""))
    journal = Journal(tmp_path / "j")
    if change == "gone":
        path.unlink()
    assert journal.find(trial(1), ONE) is None
    assert not path.exists()
    keep(journal, 1)
    assert journal.find(trial(1), ONE) is not None


def test_the_oldest_results_yield_by_number_and_by_size(tmp_path):
    journal = Journal(tmp_path / "j", most_entries=3, most_bytes=2000)
    for number in range(5):
        keep(journal, number)
        path = tmp_path / "j" / f"{trial(number).hex()}.result"
        os.utime(path, (number, number))
    kept = [number for number in range(5) if journal.find(trial(number), ONE)]
    assert kept == [2, 3, 4]
    keep(journal, 9, size=5000)
    assert journal.find(trial(9), ONE) is None, "it is larger than everything may be"
    journal = Journal(tmp_path / "j", most_entries=3, most_bytes=2000)
    keep(journal, 5, size=1600)
    kept = [number for number in range(6) if journal.find(trial(number), ONE)]
    assert kept == [4, 5]
    assert sum(path.stat().st_size for path in (tmp_path / "j").iterdir()) <= 2000


def test_half_a_file_of_a_killed_agent_is_removed(tmp_path):
    (tmp_path / "j").mkdir(mode=0o700)
    (tmp_path / "j" / "ab.part").write_bytes(b"half")
    Journal(tmp_path / "j")
    assert list((tmp_path / "j").iterdir()) == []


def test_a_disk_that_is_full_is_told_and_stops_nobody(tmp_path, monkeypatch, caplog):
    journal = Journal(tmp_path / "j")

    def full(self, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journals.Path, "replace", full)
        keep(journal, 1)
    assert "cannot be kept: No space left" in caplog.text
    assert journal.find(trial(1), ONE) is None
    assert list((tmp_path / "j").iterdir()) == []


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    (tmp_path / "j").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match=r"only its owner may enter.*755.*chmod 700"):
        Journal(tmp_path / "j")
