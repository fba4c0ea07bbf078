# SPDX-License-Identifier: Apache-2.0
"""A folder of bitstreams: manifests are checked, and a device loads the one that is asked for."""

import json

import pytest
from support.boards.agents import TINY, TOKEN, remote_device, serving
from support.boards.simulated import HiddenBoard, write_bitstream

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.reach import ask_status
from tilewright.host.runtime.bitstreams import ReconfigurableDevice, bit_file, read_bitstreams
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
    manifest = write_bitstream(tmp_path, TINY)
    (tmp_path / "again.yaml").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match="two bitstreams of one configuration"):
        read_bitstreams(tmp_path)
