# SPDX-License-Identifier: Apache-2.0
"""A compiled network on an agent's simulated board, as processes that a user starts and kills."""

import signal
import subprocess

import numpy as np
import onnx
import pytest
from e2e.command import arguments, running, serving_agent, tilewright
from e2e.networks.test_networks_cli import SHAPE, small_model
from support.randomness import generator

from tilewright.host.common.errors import DeviceError
from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_memory
from tilewright.host.runtime.agent.authentication import read_token
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.sim.verilator.device import VerilatorDevice

pytest.importorskip("pynq")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("board")
    rng = generator("board")
    onnx.save(small_model(rng), path / "small.onnx")
    np.save(path / "input.npy", rng.normal(size=SHAPE).astype(np.float32))
    (path / "token").write_text("a secret of the tests\n")
    (path / "token").chmod(0o600)
    done = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        cwd=path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return path


def agent(folder, *options: str, device: str = "simulated-board"):
    """A running agent's process and address."""
    words = arguments(
        "agent", "--hw", "tiny-4x4", "--device", device, "--listen", "127.0.0.1:0",
        "--token-file", "token", *options,
    )  # fmt: skip
    return serving_agent(words, folder)


def run_on(folder, address: str, *options: str):
    return tilewright(
        "run", "small.tw", "--input", "input.npy", "--device", "board", "--agent", address,
        "--token-file", "token", *options, cwd=folder,
    )  # fmt: skip


def is_leased(address: str, token: bytes) -> bool:
    try:
        RemoteDevice(address, token).close()
    except DeviceError as error:
        return "must be free" in str(error)
    return False


def test_a_network_runs_bit_exact_on_a_board_with_the_counters_of_the_rtl(folder):
    compiled = load(folder / "small.tw")
    inputs = {compiled.inputs[0].name: np.load(folder / "input.npy")}
    rtl = VerilatorDevice(compiled.hw, load_memory("pynq-z2"))
    expected = run_network(compiled, rtl, inputs)
    rtl.close()
    with agent(folder) as (process, address):
        done = run_on(folder, address, "-o", "out.npz")
        assert done.returncode == 0, done.stderr
        assert "outputs: bit-exact to the reference" in done.stdout
        assert f"board {address}: {expected.cycles:,} cycles on the accelerator" in done.stdout
        assert "78 to 86 MHz); ran in " in done.stdout
        assert np.array_equal(np.load(folder / "out.npz")["y"], expected.outputs["y"])
        device = RemoteDevice(address, read_token(folder / "token"), wait_seconds=10)
        for _ in range(2):
            found = run_network(compiled, device, inputs)
            assert [r.counters for r in found.results] == [r.counters for r in expected.results]
            assert all(
                np.array_equal(a.memory, b.memory)
                for a, b in zip(found.results, expected.results, strict=True)
            )
        device.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    "device",
    ["reference", *(pytest.param(name, marks=pytest.mark.slow) for name in ("rtl", "dpi"))],
)
def test_other_devices_can_be_served_too(folder, device):
    with agent(folder, device=device) as (process, address):
        done = run_on(folder, address)
        assert done.returncode == 0, done.stderr
        assert "bit-exact" in done.stdout
        process.terminate()
        assert process.wait(20) == 0


def test_without_tls_both_sides_say_so(folder):
    with agent(folder, "--plain", device="reference") as (_, address):
        done = run_on(folder, address)
        assert done.returncode == 2
        assert "give --plain to both sides or to neither" in done.stderr
        done = run_on(folder, address, "--plain", "--wait", "30")
        assert done.returncode == 0, done.stderr


def test_a_client_that_is_killed_leaves_the_agent_usable(folder):
    with agent(folder) as (_, address):
        words = arguments("run", "small.tw", "--input", "input.npy", "--device", "board",
                          "--agent", address, "--token-file", "token")  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        token = read_token(folder / "token")
        with running(words, folder, **quiet) as holder:
            while holder.poll() is None and not is_leased(address, token):
                pass
        done = run_on(folder, address, "--wait", "30")
        assert done.returncode == 0, done.stderr


def test_an_agent_that_is_killed_is_one_error_of_the_client(folder):
    with agent(folder) as (process, address):
        device = RemoteDevice(address, read_token(folder / "token"))
        process.kill()
        process.wait()
        program = load(folder / "small.tw").programs[0].program
        with pytest.raises(DeviceError):
            device.run(program, program.image())
        device.close()
        done = run_on(folder, address)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {address}: no agent answers")
        assert len(done.stderr.strip().splitlines()) == 1


def test_another_token_is_one_line(folder):
    (folder / "other").write_text("another secret of the tests")
    (folder / "other").chmod(0o600)
    with agent(folder) as (_, address):
        done = tilewright(
            "run", "small.tw", "--input", "input.npy", "--device", "board", "--agent", address,
            "--token-file", "other", cwd=folder,
        )  # fmt: skip
        assert (done.returncode, "refuses the token" in done.stderr) == (2, True)
