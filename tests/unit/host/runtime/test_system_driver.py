# SPDX-License-Identifier: Apache-2.0
import threading
import time

from tilewright.host.machine.registers import (
    SHARE_BASE,
    SHARE_COUNTER_NAMES,
    SHARE_COUNTERS,
    SHARE_STEP,
    SYSTEM_REGISTERS,
)
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_driver import SystemDriver

AT = {register.name: register.offset for register in SYSTEM_REGISTERS}
TIME = 7 << 32 | 5


class SharedPage:
    """Pairs of the page: the upper word is that of the last LO register that was read."""

    def __init__(self) -> None:
        self.kept = 0
        self.pairs = {AT["TIME_LO"]: TIME}
        for core in range(2):
            for index in range(len(SHARE_COUNTER_NAMES)):
                place = SHARE_BASE + SHARE_STEP * core + SHARE_COUNTERS + 8 * index
                self.pairs[place] = (core + 1) << 40 | index

    def read(self, address: int, /) -> int:
        time.sleep(0)  # another thread may come
        if address in self.pairs:
            self.kept = self.pairs[address] >> 32
            return self.pairs[address] & 0xFFFF_FFFF
        return self.kept

    def write(self, address: int, value: int, /) -> None:
        raise AssertionError("nothing is written")


def test_pairs_of_words_belong_together_whoever_reads_beside():
    driver = SystemDriver(SharedPage(), load_system("dual-tiny"))
    wrong: list[object] = []

    def times() -> None:
        wrong.extend(found for _ in range(3000) if (found := driver.time()) != TIME)

    def counters(core: int) -> None:
        expected = {
            name: (core + 1) << 40 | index for index, (name, _) in enumerate(SHARE_COUNTER_NAMES)
        }
        wrong.extend(
            found for _ in range(500) if (found := driver.share_counters(core)) != expected
        )

    readers = [threading.Thread(target=times)]
    readers += [threading.Thread(target=counters, args=(core,)) for core in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[:2]
