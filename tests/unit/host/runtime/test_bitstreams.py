# SPDX-License-Identifier: Apache-2.0
"""Folders of bitstreams, pools of boards, and their temperature."""

import json

import pytest
from support.boards.agents import TINY, TOKEN, remote_device, serving
from support.boards.simulated import HiddenBoard, write_bitstream

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.reach import ask_status
from tilewright.host.runtime.bitstreams import ReconfigurableDevice, bit_file, read_bitstreams
from tilewright.host.runtime.board_pool import load_board_pool
from tilewright.host.runtime.temperature import chip_temperature
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import build, data_image, legal_steps

EDGE = load_hwconfig("edge-8x8")


def key(hw) -> str:
    return f"{hw.config_hash:08x}"


def runs(device, hw) -> None:
    program = build(hw, *legal_steps(hw).values())
    image = data_image(program)
    expected = ReferenceDevice(hw).run(program, image).memory
    assert (device.run(program, image).memory == expected).all()


def test_a_client_chooses_among_the_bitstreams_of_an_agent(tmp_path):
    for hw in (TINY, EDGE):
        write_bitstream(tmp_path, hw)
    found = read_bitstreams(tmp_path)
    device = ReconfigurableDevice(found, key(TINY), lambda each: HiddenBoard(each.hw))
    with serving(device) as address:
        client = remote_device(address)
        assert client.bitstreams == {key(hw): bit_file(found[key(hw)])[1] for hw in (TINY, EDGE)}
        runs(client, TINY)
        assert client.configure(key(EDGE)) >= 0
        assert client.hw == EDGE
        runs(client, EDGE)
        with pytest.raises(ConfigError, match="no bitstream of that configuration"):
            client.configure("00000000")
        runs(client, EDGE)
        client.configure(key(TINY))
        runs(client, TINY)
        client.close()


def test_others_are_told_how_the_agent_is_while_a_bitstream_is_loaded(tmp_path):
    for hw in (TINY, EDGE):
        write_bitstream(tmp_path, hw)
    said = []

    def open_one(each):
        if each.hw == EDGE:
            said.append(ask_status(address, TOKEN, plain=True))
        return HiddenBoard(each.hw)

    device = ReconfigurableDevice(read_bitstreams(tmp_path), key(TINY), open_one)
    with serving(device) as address:
        client = remote_device(address)
        client.configure(key(EDGE))
        assert [(each.leased, each.hw) for each in said] == [(True, TINY.name)]
        assert ask_status(address, TOKEN, plain=True).hw == EDGE.name
        client.close()


def test_an_agent_of_one_configuration_loads_no_other(tmp_path):
    with serving(HiddenBoard()) as address:
        client = remote_device(address)
        with pytest.raises(DeviceError, match=r"one configuration alone.*--bitstreams FOLDER"):
            client.configure(key(EDGE))
        runs(client, TINY)
        client.close()


def test_after_a_bitstream_that_cannot_be_loaded_the_one_before_is_back(tmp_path):
    write_bitstream(tmp_path, TINY)
    write_bitstream(tmp_path, EDGE)

    def open_one(each):
        if each.hw == EDGE:
            raise DeviceError("it does not start", field="device")
        return HiddenBoard(each.hw)

    device = ReconfigurableDevice(read_bitstreams(tmp_path), key(TINY), open_one)
    with pytest.raises(DeviceError, match="does not start"):
        device.configure(key(EDGE))
    assert device.hw == TINY
    runs(device, TINY)
    device.close()
    with pytest.raises(DeviceError, match="no bitstream is loaded"):
        runs(device, TINY)


def test_a_file_that_is_not_the_one_of_its_manifest_is_refused(tmp_path):
    write_bitstream(tmp_path, TINY)
    (tmp_path / "tiny-4x4.bit").write_bytes(b"another build")
    with pytest.raises(ConfigError, match=r"must be the file of the manifest"):
        ReconfigurableDevice(
            read_bitstreams(tmp_path), key(TINY), lambda each: HiddenBoard(each.hw)
        )


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "one .bit file"), ({"../x.bit": "00"}, "must be a name"), ([], "must be a mapping")],
)
def test_a_manifest_without_its_bitstream_is_refused(tmp_path, files, message):
    manifest = write_bitstream(tmp_path, TINY)
    (tmp_path / "tiny-4x4.yaml").write_text(json.dumps({**manifest, "files": files}))
    with pytest.raises(ConfigError, match=message):
        read_bitstreams(tmp_path)


def test_a_folder_without_a_manifest_or_with_two_of_one_configuration_is_refused(tmp_path):
    (tmp_path / "board.yaml").write_text("part: x\n")
    with pytest.raises(ConfigError, match="holds no manifest"):
        read_bitstreams(tmp_path)
    with pytest.raises(ConfigError, match="must be a folder"):
        read_bitstreams(tmp_path / "none")
    (tmp_path / "again.yaml").write_text(json.dumps(write_bitstream(tmp_path, TINY)))
    with pytest.raises(ConfigError, match="two bitstreams of one configuration"):
        read_bitstreams(tmp_path)


# -- A pool of boards: each wrong field is one error that names it
GOOD = """
boards:
  - name: desk
    agent: 127.0.0.1:7425
    token_file: token
    plain: true
  - {name: lab, agent: "[::1]:7426", token_file: /etc/token, wait_seconds: 5}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("boards:", "board:", r"pool.yaml: board: unknown key.*boards"),
        (GOOD, "boards: []", r"pool.yaml: boards: must be a list of at least one board"),
        (GOOD, "boards: [desk]", r"board 1: must be a mapping, not 'desk'"),
        ("name: desk", "nam: desk", r"board 1: nam: unknown key.*name"),
        ("name: desk", "name: 7", r"board 1: name: must be printable text, not 7"),
        ("name: desk", "name: lab", r"board 2: name: must be another one for each board"),
        ("[::1]:7426", "LOCALHOST:7425", r"board 2: agent: must be another one"),
        ("[::1]:7426", "127.0.0.1:7425", r"board 2: agent: must be another one"),
        ("127.0.0.1:7425", "127.0.0.1", r"board 1: agent: must look like HOST:PORT"),
        ("127.0.0.1:7425", "desk:99999", r"board 1: agent: must look like HOST:PORT"),
        ("token_file: token", "token_file:", r"board 1: token_file: must be printable text"),
        ("plain: true", "plain: 1", r"board 1: plain: must be true or false, not 1"),
        ("wait_seconds: 5", "wait_seconds: -1", r"board 2: wait_seconds: must be 0 to"),
        ("wait_seconds: 5", "wait_seconds: .nan", r"board 2: wait_seconds: must be 0 to"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, old, new, message):
    path = tmp_path / "pool.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        load_board_pool(path)


# -- The temperature, from the files in which Linux tells it
def write(folder, **files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_the_converter_of_a_zynq_counts_before_thermal_zones(tmp_path):
    write(tmp_path / "class/thermal/thermal_zone0", temp="20000")
    assert chip_temperature(tmp_path) == 20.0
    write(
        tmp_path / "bus/iio/devices/iio:device0", name="xadc", in_temp0_raw="2592",
        in_temp0_offset="-2219", in_temp0_scale="123.040771484",
    )  # fmt: skip
    assert chip_temperature(tmp_path) == pytest.approx(45.89, abs=0.01)


def test_other_converters_and_files_that_say_nothing_are_passed_over(tmp_path):
    assert chip_temperature(tmp_path) is None
    write(tmp_path / "bus/iio/devices/iio:device0", name="accelerometer", in_temp0_raw="1",
          in_temp0_scale="1")  # fmt: skip
    write(tmp_path / "bus/iio/devices/iio:device1", name="xadc", in_temp0_raw="hot")
    write(tmp_path / "class/thermal/thermal_zone0", temp="")
    assert chip_temperature(tmp_path) is None
