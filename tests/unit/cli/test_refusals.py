# SPDX-License-Identifier: Apache-2.0
"""What users get wrong: one line on standard error, exit code 2, and nothing is written."""

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command_line import call, commands, refusal
from support.networks.small_models import Model
from support.networks.tflite_files import TfliteFile
from support.randomness import generator, where

from tilewright.cli.common.parse_errors import ALIKE
from tilewright.host.compiler import pipeline
from tilewright.host.network.foreign_models import FOREIGN
from tilewright.tuner.multicore.methods.mapper import GroupMapper

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
ARCHITECTURE = (
    "pes: 4\nl1_bytes: 3\nnoc_bytes_per_cycle: 1\ndram_bytes_per_cycle: 1\n"
    "l1_energy: 1\nl2_energy: 1\ndram_energy: 1\n"
)
FREE = ARCHITECTURE.replace("energy: 1", "energy: 0").replace("l1_bytes: 3", "mac_energy: 0")
TEXTS = {
    "file": "",
    "old.sqlite": "not a database, but long enough to look like a file\n" * 99,
    "jobs.csv": "row,lat_core0,reqbw_core0\n" + "".join(f"{n},10,1\n" for n in range(40)),
    "tiny.yaml": ARCHITECTURE,
    "none.yaml": ARCHITECTURE.replace("pes: 4", "pes: 0"),
    "free.yaml": FREE,
}


def model_bytes() -> bytes:
    model = Model(generator("float"))
    y = model.add("Conv", model.input(1, 4, 8, 8), model.weights(8, 4, 3, 3), pads=[1] * 4)
    return onnx.shape_inference.infer_shapes(model.proto(y)).SerializeToString()


def open_model() -> onnx.ModelProto:
    model = onnx.load_from_string(model_bytes())
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    return model


def float_tflite() -> bytes:
    file = TfliteFile()
    data, result = file.tensor((2, 3)), file.tensor((2, 3))
    file.add("RELU", [data], [result])
    return file.written([data], [result])


def quantised_model() -> onnx.ModelProto:
    model = Model(generator("quantised"))
    x = model.quantised(model.input(1, 4, 4, 4), 0.05, 0)
    weights = model.quantised(model.constant(np.ones((4, 4, 1, 1), np.float32)), 0.01, 0)
    return model.proto(model.quantised(model.add("Conv", x, weights), 0.05, 0))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder: models (float, of open sizes, quantised, compiled), numbers, tables, a token."""
    path = tmp_path_factory.mktemp("refusals")
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    (path / "digits.onnx").write_bytes(DIGITS.read_bytes())
    (path / "m.onnx").write_bytes(model_bytes())
    (path / "m.tw").write_bytes(b"")
    for name in ("m.pt", "m.pt2"):
        (path / name).write_bytes(b"\x80\x04N.")
    (path / "float.tflite").write_bytes(float_tflite())
    (path / "cut.tflite").write_bytes(float_tflite()[:99])
    (path / "m.tflite").write_bytes(model_bytes())
    onnx.save(open_model(), path / "open.onnx")
    onnx.save(quantised_model(), path / "q.onnx")
    np.save(path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.save(path / "two.npy", np.zeros((2, 1, 8, 8), np.float32))
    (path / "token").write_text("a secret of the tests")
    (path / "token").chmod(0o600)
    done = call(
        "compile", str(path / "digits.onnx"), "--random-calibration", "1", "--hw", "tiny-4x4",
        "--search", "0", "-o", str(path / "digits.tw"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def folder(files, monkeypatch) -> Path:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was compiled or searched first")

    monkeypatch.chdir(files)
    monkeypatch.setattr(pipeline, "compile_network", never)
    monkeypatch.setattr(GroupMapper, "run", never)
    return files


def contents(folder: Path) -> dict[Path, bytes]:
    """Of all files but a store, which may be opened before a study is refused."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and "runs" not in p.parts}


def refused(folder: Path, *words: str) -> str:
    """The line that a command is refused with."""
    before = contents(folder)
    said = refusal(*words)
    assert contents(folder) == before
    return said


NOISE = "--random-calibration 1"
ON_BOARD = "run digits.tw --random --device board"
AGENT = "agent --token-file token"
SERVED = f"{AGENT} --device reference"
ROWS = [
    # names
    ("sim C99", "layer", "C99", "C2"),
    ("sim C1x", "layer", "C1x", "C11"),
    ("sim C2 --hw nothing", "hw", "nothing", "pynq-16x16"),
    ("sim C10 --hw pynq16x16", "did you mean pynq-16x16?"),
    ("sim C10 --hw .", "hw", "no folder"),
    ("sim C2 --memory nothing", "memory", "ideal"),
    ("sim C2 --network nothing", "nothing", "resnet18"),
    ("sim C2 --schedule missing.yaml", "missing.yaml"),
    ("sim C2 --device reference --waves w.fst", "waves"),
    ("sim C10 --waves file/w.fst --hw tiny-4x4", "waves", "file/w.fst"),
    ("sim C10 --waves . --hw tiny-4x4", "waves", "directory"),
    ("sim C2 --hw \udcc3", "--hw: must be text", "'\\udcc3'"),
    ("sim \udcc3", "argument 2: must be text"),
    ("tuen resnet18", "tuen", "did you mean tune?"),
    ("tune nothing", "nothing", "resnet18"),
    ("tune resnt18", "did you mean resnet18?"),
    ("tune missing.onnx", "missing.onnx"),
    ("tune resnet18 --board nothing", "board", "nothing"),
    ("tune resnet18 --board pynq-z9", "board", "pynq-z9", "pynq-z1"),
    ("tune resnet18 --hw zu-32x32", "fit", "pynq-z2", "zu-32x32"),
    ("tune resnet18 --layers C99", "layer", "C99"),
    ("tune vta-resnet18 --layers C2,C0", "layer", "C0", "C2"),
    ("tune resnet18 --layers ,", "--layers", "C2"),
    ("tune resnet18 --layers C2,,C3", "--layers", "C2,,C3"),
    ("tune resnet18 --budget 3", "budget", "3"),
    ("tune resnet18 --tuner tilewrigt", "did you mean tilewright?"),
    ("tune resnet18 --memory idael", "did you mean ideal?"),
    ("tune resnet18 --allocator nothing", "allocator", "nothing", "headroom"),
    ("tune resnet18 --allocator hindsight", "allocator", "hindsight"),
    ("tune resnet18 --warm-start none.sqlite", "none.sqlite", "no such trial store"),
    ("tune resnet18 --ray ''", "--ray: must not be empty"),
    ("tune resnet18 --store=", "--store: must not be empty"),
    ("tune resnet18 --runs file/runs", "file/runs", "writable"),
    ("tune resnet18 --layers C10 --store .", "no folder", "--runs"),
    (f"tune resnet18 --name {'n' * 300}", "--name", "200 bytes"),
    ("tune --name=\udcc3 resnet18", "--name: must be text"),
    ("tune resnet18 --hw edge-8x8 --configs 5", "--configs", "base"),
    ("tune resnet18 --hw tiny-4x4 --base pynq-16x32",
     "--base: is where a search of configurations starts; hw is the only one"),
    ("report --runs nowhere", "no such trial store"),
    ("report nothing --runs file/runs", "file/runs"),
    ("report --store .", "no folder", "--runs"),
    ("report --store old.sqlite", "old.sqlite"),
    ("report --output x.yaml", "--output", "not 'x.yaml'"),
    # models
    ("compile m.onnx", "m.onnx", "a float model needs calibration data; give --calibration with",
     "--random-calibration 8 for cycle counts"),
    ("compile m.onnx -o ''", "-o: must not be empty"),
    ("compile m.onnx -o m.onnx", "--output", "m.onnx", "another file than MODEL"),
    ("compile m.onnx --annotated ./m.onnx", "--annotated", "than MODEL"),
    ("compile m.onnx --html m.tw", "--html", "m.tw", "another file than --output"),
    ("compile m.onnx -o m.pt/x.tw", "--output", "m.pt/x.tw", "cannot be written"),
    (f"compile m.pt2 {NOISE}", "m.pt2", "nothing but ATen", "bare pickle", "--trust-model"),
    (f"compile m.pt {NOISE}", "m.pt", "nothing but ATen", "torch.export.save", "--trust-model"),
    (f"compile m.tw {NOISE}", "m.tw", "is compiled already", "ONNX"),
    (f"compile x.npy {NOISE}", "x.npy"),
    (f"compile open.onnx {NOISE}",
     "(axis 2 is open), not 'float (1, 4, h, w)'; give its sizes with --shape NAME="),
    ("compile absent.onnx", "absent.onnx"),
    ("compile m.onnx --calibration absent.npy", "absent.npy"),
    ("compile m.onnx --calibration m.onnx", "error: --calibration: must be"),
    (f"compile m.onnx {NOISE} --hw none", "none"),
    (f"compile m.onnx {NOISE} --mean a", "--mean: must be"),
    (f"compile m.onnx {NOISE} --std 0", "error: --std: "),
    (f"compile digits.onnx {NOISE} --mean 0.5", "--mean: scales images alone, not '1 random"),
    ("compile digits.onnx --calibration x.npy --std 2", "--std: scales images alone"),
    ("compile m.onnx --shape x", "--shape: must look like NAME=1,3,224,224"),
    (f"compile digits.onnx {NOISE} --percentile 97",
     "--percentile: is for calibration method percentile, not 'mse'; add --calibration"),
    ("compile m.tflite --search 0", "m.tflite: must be a TensorFlow Lite file, with TFL3 as"),
    ("compile cut.tflite", "cut.tflite: must be a TensorFlow Lite model (the file is truncated"),
    ("compile float.tflite", "float.tflite: a float model needs calibration data; give --calib"),
    (f"compile float.tflite {NOISE} --shape t0=4,3",
     "float.tflite: t0: must be 2 on a fixed axis, not"),
    (f"compile digits.onnx {NOISE} --trust-model", "--trust-model: is for .pt2 files, not"),
    ("compile q.onnx --mean 0.5", "--mean: scales the images of --calibration; add"),
    (f"compile q.onnx {NOISE}",
     "--random-calibration: is for a float model; this one is quantised"),
    ("compile q.onnx --calibration x.npy", "--calibration: is for a float model"),
    ("compile q.onnx --asymmetric", "--asymmetric: is for a float model"),
    ("compile q.onnx --no-equalisation", "--no-equalisation: is for a float model"),
    ("compile q.onnx --calibration-method mse", "--calibration-method: is for a float"),
    (f"compile digits.onnx {NOISE} --explain Softmin",
     "--explain: must be the name or kind of an operator of the model, or all, not 'Softmin'; "),
    (f"compile digits.onnx {NOISE} --explain Conv --explain 'no such'", "or all, not 'no such'; "),
    ("tune m.pt2", "m.pt2"),
    ("tune resnet18 --trust-model", "--trust-model: is for .pt2 files"),
    ("tune q.onnx --trust-model", "--trust-model: is for .pt2 files, not 'q.onnx'"),
    ("tune input.tw", "input.tw: cannot be read"),
    ("tune absent.onnx", "absent.onnx"),
    # networks
    ("run absent.tw --random", "NETWORK: cannot be read (No such file or directory): 'absent.tw'"),
    ("run x.npy --random", "x.npy: must be a compiled network"),
    ("run digits.tw", "error: --input, --random: give one"),
    ("run digits.tw --input absent.npy", "error: --input: cannot be read"),
    ("run digits.tw --input m.onnx", "error: --input: must be an image"),
    ("run digits.tw --input x.npy.gz", "x.npy.gz"),
    ("run digits.tw --input two.npy", "holds more samples than the network takes"),
    ("run digits.tw --input x.npy --mean nan", "--mean: must be finite"),
    ("run digits.tw --input x.npy --std 0", "--std: must be finite and"),
    ("run digits.tw --input x.npy --mean 0.5", "--mean: scales images alone, not 'x.npy'"),
    ("run digits.tw --random --mean 1", "--mean: scales images alone"),
    ("run digits.tw --random --std 2", "--std: scales images alone, not '1 random input'"),
    ("run digits.tw --input x.npy --seed 0", "--seed: is of --random; leave it out"),
    ("run digits.tw --device twin --random", "the twin has no data"),
    ("run digits.tw --cycles-only --random", "needs the twin"),
    ("run digits.tw --device twin --cycles-only --random",
     "--random: is for a run with data, not --cycles-only; leave it out"),
    ("run digits.tw --device twin --cycles-only --no-check", "--no-check: is for a run with data"),
    ("run digits.tw --device twin --cycles-only -o o.npz", "--output: is for a run with data"),
    ("run digits.tw --device twin --cycles-only --plain", "--plain: is for a run with data"),
    ("run digits.tw --random --wait 0", "--wait: needs a board; add --device board"),
    ("run digits.tw --random --device reference --memory ideal",
     "--memory: needs a device with time, not the reference; leave it out"),
    ("run digits.tw --random --device reference --check", "--check: compares with the reference"),
    # boards
    (f"{ON_BOARD}", "give one of --agent and"),
    (f"{ON_BOARD} --agent a:1", "--token-file"),
    (f"{ON_BOARD} --agent a:1 --bitstream x.bit", "give one of --agent and --bitstream"),
    (f"{ON_BOARD} --bitstream absent.bit", "bitstream: no such file"),
    (f"{ON_BOARD} --agent x --token-file token", "must look like HOST:PORT"),
    (f"{ON_BOARD} --agent 127.0.0.1:1 --memory ideal",
     "--memory: is for a simulation; a board has a memory of its own; leave it out"),
    (f"{ON_BOARD} --agent 127.0.0.1:1 --ip x", "--ip: is of --bitstream"),
    (f"{ON_BOARD} --plain --agent 192.0.2.1:7425 --token-file token",
     "agent: without TLS must be an address of this machine alone"),
    ("run digits.tw --random --agent a:1", "add --device board"),
    (f"{AGENT}", "give one of --bitstream, --bitstreams and --device"),
    ("agent --token-file absent --device reference", "absent: cannot be read"),
    (f"{AGENT} --bitstream absent.bit", "no such file"),
    (f"{SERVED} --listen x", "must look like HOST:PORT"),
    (f"{SERVED} --max-seconds 0", "error: --max-seconds: must be a number above 0"),
    (f"{SERVED} --max-program-mib -1",
     "--max-program-mib: must be a number above 0 and below 1,048,576, not -1"),
    (f"{SERVED} --plain --listen 0.0.0.0:0",
     "listen: without TLS must be an address of this machine alone"),
    (f"{SERVED} --plain --certificate token", "give one of --certificate and --plain"),
    (f"{SERVED} --certificate token",
     "token: must hold a private key without password and its certificate"),
    ("board run b.zip --simulated --bitstream b.bit", "--bitstream: is for a"),
    # memories
    ("sim C11 --memory ideal --board pynq-z2",
     "--board: names the memory where --memory is 'board', not 'ideal'; leave one of both"),
    ("exhaust C11 --memory ideal --board pynq-z2", "--board: names the"),
    ("export-table C11 --memory ideal --board pynq-z2", "--board: names the"),
    ("sim C11 --device reference --memory ideal", "--memory: needs a device"),
    # many cores
    ("multicore jobs.csv --bandwidth 1 --size 3",
     "--size: makes the jobs of a task; a table states them; leave it out"),
    ("multicore jobs.csv --bandwidth 1 --platform S2", "--platform: makes"),
    ("multicore jobs.csv --bandwidth 1 --method exact --budget 9",
     "--budget: is for methods that sample, not exact"),
    ("multicore digits.tw --system dual-tiny --window 99",
     "--window: is that of budgets, and no core has one; add --budgets"),
    (f"multicore q.onnx --pipeline --system dual-tiny {NOISE}",
     "--random-calibration: is for a float model; this one is quantised already"),
    ("multicore jobs.csv", "--bandwidth: must be given for a job table"),
    ("multicore jobs.csv --bandwidth 0", "--bandwidth"),
    ("multicore jobs.csv --bandwidth 1 --method hreald", "--method: no group mapper of that name"),
    ("multicore jobs.csv --bandwidth 1 --method magam", "did you mean magma?"),
    ("multicore jobs.csv --bandwidth 1 --method exact", "only groups of up to"),
    ("multicore NO.CSV --bandwidth 1", "must be a readable CSV file"),
    ("multicore no.csv --bandwidth 1", "must be a readable CSV file"),
    ("multicore visoin", "did you mean vision?"),
    ("multicore none.csv.gz", "or a file of jobs (.csv, not compressed) or networks (.tw)"),
    ("multicore vision --platform S9", "no platform of that name"),
    ("multicore jobs.csv --bandwidth 4 --html file/x", "--html: cannot be written"),
    ("multicore jobs.csv --bandwidth 4 --trace file/x", "--trace: cannot be written"),
    # benchmarks
    ("bench simsped", "did you mean simspeed?"),
    ("bench tuners --track perlayer", "did you mean per-layer?"),
    ("bench tuners --layers C70 --networks resnet18", "did you mean C7?"),
    ("bench tuners --networks resnet81", "did you mean resnet18?"),
    ("bench tuners --tuners tilewrigth", "did you mean tilewright?"),
    ("bench tuners --minutes 0 --noise=-1", "--noise", "at least 0"),
    ("bench tuners --minutes 0 --noise nan", "--noise", "at least 0"),
    ("bench tuners --minutes 0 --noise inf", "--noise", "at least 0"),
    ("bench tuners --tuners mine:Climb", "its module cannot be imported", "No module named 'mine'"),
    ("bench tuners --tuners gone.py:Climb", "no such file", "gone.py:Climb"),
    ("bench tuners --tuners genetic:size=3", "must be an option of its class, not 'size'"),
    ("bench tuners --tuners dcoc:top", "must be option=value, not 'top'"),
    ("bench allocate --regime papr", "did you mean paper?"),
    ("bench allocate --prices bord", "did you mean board?"),
    ("bench roofline --hw pynq-16x61", "did you mean pynq-16x16?"),
    ("bench roofline --memory ideel", "did you mean ideal?"),
    ("bench ablation --memori ideal", "did you mean --memory?"),
    ("bench mapping --quick --objectives edb", "did you mean edp?"),
    ("bench mapping --quick --methods gama", "did you mean gamma?"),
    ("bench mapping --quick --networks resnet81", "did you mean resnet18?"),
    ("bench mapping --quick --hardware flexible-265", "did you mean flexible-256?"),
    ("bench multicore --quick --methods magam",
     "--methods: no group mapper of that name: 'magam'; did you mean magma?"),
    ("bench multicore --quick --platforms S9", "no platform of that name"),
    ("bench multicore --quick --tasks visoin", "did you mean vision?"),
    ("bench multicore --quick --tasks jobs.csv", "bandwidths"),
    # hardware and verification
    ("synth pynq-16x61", "did you mean pynq-16x16?"),
    ("synth pynq-16x16 --board pynk-z2", "did you mean pynq-z2?"),
    ("synth pynq-16x16 --family xc8", "did you mean xc7?"),
    ("timing pynq-16x61", "did you mean pynq-16x16?"),
    ("timing tiny-4x4 --family ecp4", "did you mean ecp5?"),
    ("timing tiny-4x4 --set mac_pipelin=2", "did you mean mac_pipeline?"),
    ("pnr tiny-4x4 --device 86k", "did you mean 85k?"),
    ("bitstream tiny-4x4 --board ulx3", "did you mean ulx3s?"),
    ("pnr tiny-4x4 --router ruter2", "did you mean router2?"),
    ("pnr tiny-4x4 --set mac_pipelin=2", "did you mean mac_pipeline?"),
    ("synth-record recrd", "did you mean record?"),
    ("verify formal fifoo", "did you mean fifo?"),
    ("verify formall", "did you mean formal?"),
    ("verify netlist tiny-4x5", "did you mean tiny-4x4?"),
    ("verify netlist tiny-4x4 --stage cell", "did you mean cells?"),
    ("verify coverage --quik", "did you mean --quick?"),
    # mappings
    ("map nonet", "no built-in network", "nonet"),
    ("map resnet18:C22", "C22", "did you mean C2?"),
    ("map resnet18 --hardware big", "--hardware", "no architecture", "flexible-256"),
    ("map resnet18 --method magic", "no mapper", "magic"),
    ("map resnet18:C2 --layers C2", "--layers", "leave it out"),
    ("map resnet18:C2 --output file", "--output", "must be a folder"),
    ("map resnet18:C2 --output file/x", "--output: cannot be written"),
    ("map resnet18:C2 --method exat", "--method: no mapper", "did you mean exact?"),
    ("map resnet18:C2 --hardware free.yaml", "objective: is nothing to minimise"),
    (f"map resnet18:C2 --method random --budget 1{'0' * 30}", "--budget: must be"),
    ("map resnet18:C2 --hardware tiny.yaml", "not even one", "tiny"),
    ("map resnet18:C2 --hardware none.yaml", "none.yaml: pes: must be an integer"),
    ("map resnet18:C2 --budget 9", "--budget: belongs to methods that sample"),
    ("map resnet18:C2 --method random --gap 0.1", "--gap: belongs to"),
]  # fmt: skip
"""What is typed, and what the line says of it."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].encode("ascii", "replace").decode())
def test_what_cannot_be_is_one_line_and_writes_nothing(folder, row) -> None:
    said = refused(folder, *shlex.split(row[0]))
    for part in row[1:]:
        assert part in said


TILES = "tile_h: 1\ntile_w: 1\ntile_ci: 1\ntile_co: 1\n"


@pytest.mark.parametrize(
    ("option", "text", "parts"),
    [
        ("--hw", "block_in: 16\n\tbatch: 1\n", ("in.yaml:2", "valid YAML")),
        ("--hw", "block_in: 16\nblock_in: 8\n", ("in.yaml", "given twice")),
        ("--hw", "block_in: sixteen\n", ("block_in", "integer", "sixteen")),
        ("--hw", "block_in: 12", ("power of two",)),
        ("--hw", "batch: 8\nblock_in: 64\nblock_out: 64\n",
         ("block_out", "at most 4096", "shrink")),
        ("--hw", "wgt_bytes: 1000\n", ("wgt_bytes", "1024", "1000")),
        ("--hw", "vector_lanes: 32\n", ("vector_lanes", "output tile", "32", "lower vector_lanes")),
        ("--hw", "", ("in.yaml", "mapping")),
        ("--hw", "- 1", ("mapping",)),
        ("--hw", "blocks: 3", ("unknown key",)),
        ("--hw", "blockin: 16\n", ("blockin", "did you mean block_in?")),
        ("--hw", "a: &a {x: 1}\nb: {<<: [*a, *a]}\n", ("in.yaml:2", "aliases")),
        ("--hw", "<<: {block_in: 8}\n", ("in.yaml:1", "merge keys")),
        ("--hw", "block_in: 0x" + "f" * 6000, ("in.yaml", "integers must be below 2^64")),
        ("--hw", "#" * (1 << 20) + "\n", ("in.yaml", "at most")),
        ("--schedule", TILES.replace("h: 1", "h: 0"), ("tile_h", "at least 1")),
        ("--schedule", "tile_h: 1\n", ("in.yaml", "tile_w, tile_ci, tile_co: must be stated")),
        ("--schedule", TILES + "loop: x\n", ("loop", "tile_ci")),
        ("--schedule", TILES + "fusion: x\n", ("fusion", "tile, block")),
        ("--schedule", "tile_h: 7\ntile_w: 7\ntile_ci: 16\ntile_co: 999\n",
         ("in.yaml", "needs", "has", "C10")),
    ],
)  # fmt: skip
def test_a_file_that_breaks_a_rule(folder, option, text, parts) -> None:
    path = folder / "in.yaml"
    path.write_text(text, encoding="utf-8")
    said = refused(folder, "sim", "C10", option, "in.yaml")
    path.unlink()
    for part in parts:
        assert part in said


def test_the_name_of_a_file_cannot_steer_the_terminal(folder) -> None:
    path = folder / "\x1b[2J\u202e\x9b31m\n.yaml"
    path.write_text("")
    said = refused(folder, "sim", "C10", "--hw", str(path))
    path.unlink()
    assert r"\x1b[2J\u202e\x9b31m" in said
    assert "mapping" in said
    assert said[:-1].isprintable()


def test_truncated_onnx_models(folder) -> None:
    data, rng = model_bytes(), generator("cut")
    onnx.checker.check_model(onnx.load_from_string(data))
    for length in (0, 1, len(data) - 1, int(rng.integers(2, len(data) - 1))):
        (folder / "cut.onnx").write_bytes(data[:length])
        assert "cut.onnx" in refused(folder, "tune", "cut.onnx", "--runs", "none")
        assert not (folder / "none").exists(), where(length=length)


@pytest.mark.parametrize("command", ["compile", "tune"])
def test_a_model_of_another_framework_is_told_how_to_convert_it(folder, command) -> None:
    rng = generator(f"foreign {command}")
    for ending in rng.permutation(sorted(FOREIGN))[:4].tolist():
        name = f"net{ending}"
        (folder / name).write_bytes(b"\xff" + rng.bytes(int(rng.integers(0, 300))))
        said = refused(folder, command, name)
        (folder / name).unlink()
        kind, remedy = FOREIGN[ending]
        assert f"this is one {kind}; {remedy}" in said
        assert "truncated" not in said


def test_an_option_of_another_name_is_answered_with_the_one_that_the_command_has() -> None:
    rng, asked = generator("alike"), 0
    found = [(path, command) for path, command in commands() if not hasattr(command, "commands")]
    for at in rng.permutation(len(found))[:12].tolist():
        path, command = found[at]
        known = {name for parameter in command.params for name in parameter.opts}
        for names in ALIKE:
            mine = [name for name in names if name in known]
            for other in {*names} - known if mine else ():
                said = refusal(*path.split(), other, "1")
                assert f"has no such option; did you mean {mine[0]}?" in said, (path, other)
                asked += 1
    assert asked > 5
