# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pty
import termios
from pathlib import Path

import pytest

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.runtime.serial_port import BAUD, SerialPort


@pytest.fixture
def line():
    """A serial line: the file of its far end, and the path of this one."""
    far, near = pty.openpty()
    yield far, Path(os.ttyname(near))
    for file in (far, near):
        with contextlib.suppress(OSError):
            os.close(file)


def test_every_byte_passes_in_both_directions(line):
    far, path = line
    port = SerialPort(path)
    every = bytes(range(256))
    port.send(every)
    assert os.read(far, 1000) == every
    os.write(far, every)
    assert port.receive(256) == every
    port.close()
    port.close()


def test_the_line_has_the_speed_of_the_shell(line):
    _, path = line
    port = SerialPort(path)
    file = os.open(path, os.O_RDWR | os.O_NOCTTY)
    assert termios.tcgetattr(file)[4:6] == [getattr(termios, f"B{BAUD}")] * 2
    os.close(file)
    port.close()


def test_refuses_a_speed_without_a_name(line):
    with pytest.raises(ConfigError, match="baud: must be a speed"):
        SerialPort(line[1], baud=1234567)


@pytest.mark.parametrize("name", ["absent", "plain"])
def test_refuses_what_is_no_serial_port(tmp_path, name):
    (tmp_path / "plain").write_text("")
    with pytest.raises(DeviceError, match="cannot be opened") as caught:
        SerialPort(tmp_path / name)
    assert "dialout" in caught.value.remedy


def test_a_board_that_is_gone_is_an_error(line):
    far, path = line
    port = SerialPort(path, seconds=0.2)
    os.close(far)
    with pytest.raises(DeviceError, match="is gone"):
        port.receive(1)
    port.close()
