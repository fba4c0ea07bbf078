# SPDX-License-Identifier: Apache-2.0
"""Trained networks from Python packages: imported, compiled, run bit-exact, and right."""

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from support.randomness import fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pipeline import compile_network, import_network
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.device import Device
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.device import VerilatorDevice

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from networks import public

from tilewright.bench.accuracy import data as accuracy_data
from tilewright.bench.accuracy import subjects as accuracy_subjects
from tilewright.bench.accuracy.subjects import OPTIONAL, SUBJECTS, installed

HW, BOARD = load_hwconfig("pynq-16x16"), load_board("pynq-z2")


def needs(package: str):
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None,
        reason=f"pip install --no-deps {public.VERSIONS.get(package, package)}",
    )


def drawn(text: str) -> np.ndarray:
    """A line of text in black on grey as the classifier takes it."""
    font = ImageFont.load_default(size=28)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("L", (int(right - left) + 8, int(bottom - top) + 8), 200)
    ImageDraw.Draw(image).text((4 - left, 4 - top), text, fill=20, font=font)
    return public.text_line(image, public.ANGLE_COLUMNS)


def turned(line: np.ndarray) -> np.ndarray:
    width = int(np.flatnonzero(line[0, 0].any(axis=0))[-1]) + 1
    result = np.zeros_like(line)
    result[..., :width] = line[..., ::-1, width - 1 :: -1]
    return result


class Classifier:
    """The angle classifier, compiled; each region runs by definition and on a device."""

    def __init__(self) -> None:
        known = [drawn(text) for text in ("Hello world", "measured", "in cycles", "Verilog 2026")]
        network = import_network(
            public.angle_classifier(),
            calibration=Calibration(arrays={"x": np.concatenate([*known, *map(turned, known)])}),
            options=ImportOptions(name="angle"),
        )
        compilation = compile_network(network, HW, BOARD)
        self.compiled, self.graphs = compilation.network, compilation.layers
        self.host = HostProgram(module=HostModule.from_json(self.compiled.host))

    def run(self, image: np.ndarray, device: Device) -> int:
        """The class of an image; asserts that the device returns what is defined."""
        ran = []

        def region(number, arguments):
            graph, executable = self.graphs[number], self.compiled.regions[number]
            named = zip(graph.inputs, arguments, strict=True)
            values = evaluate(
                graph, {n: to_normal_form(a, graph.tensors[n].shape) for n, a in named}
            )
            found, _ = executable.run(device, list(arguments))
            for name, output in zip(graph.outputs, found, strict=True):
                shape = executable.model_shapes.get(name, values[name].shape)
                expected = from_normal_form(values[name], shape)
                np.testing.assert_array_equal(output, expected, err_msg=f"region {number}")
            ran.append(number)
            return found

        (output,) = self.host.run({"x": image}, region).values()
        assert sorted(ran) == list(range(len(self.graphs)))
        return int(output.argmax())


@pytest.fixture(scope="module")
def classifier():
    return Classifier()


@pytest.mark.slow
@needs("rapidocr_onnxruntime")
def test_the_angle_classifier_is_right_and_bit_exact_on_the_reference_device(classifier) -> None:
    line, device = drawn("bit for bit"), ReferenceDevice(HW)
    assert classifier.run(line, device) == 0
    assert classifier.run(turned(line), device) == 1
    classifier.run(fresh_rng().uniform(-1, 1, line.shape).astype(np.float32), device)
    accelerated = [p.kind for p in classifier.compiled.placements if p.where == "accelerator"]
    assert accelerated.count("Conv") >= 30


@pytest.mark.slow
@needs("rapidocr_onnxruntime")
def test_the_angle_classifier_is_bit_exact_on_the_rtl(classifier) -> None:
    shape = (1, 3, public.TEXT_ROWS, public.ANGLE_COLUMNS)
    device = VerilatorDevice(HW, BOARD.memory, fidelity=Fidelity.RTL)
    try:
        classifier.run(fresh_rng().uniform(-1, 1, shape).astype(np.float32), device)
    finally:
        device.close()


@needs("facenet_pytorch")
@pytest.mark.parametrize(("name", "outputs"), [("pnet", 2), ("rnet", 2), ("onet", 3)])
def test_a_face_network_takes_the_weights_of_its_file(name, outputs) -> None:
    import torch  # noqa: PLC0415  (heavy)

    network = public.FaceNetwork(public.FACE_STAGES[name])
    weights = torch.load(
        public.package_file("facenet_pytorch", f"data/{name}.pt"), weights_only=True
    )
    network.load_state_dict(weights)
    size = public.FACE_STAGES[name].size
    results = network(torch.zeros(2, 3, size, size))
    assert [tuple(r.shape) for r in results] == [(2, 2), (2, 4), (2, 10)][:outputs]
    assert torch.allclose(results[0].sum(1), torch.ones(2))


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    install = r"rapidocr-onnxruntime==1\.4\.4; pip install --no-deps"
    with pytest.raises(TilewrightError, match=install):
        public.angle_classifier()


def test_the_best_path_counts_repeats_once_and_separates_by_the_empty_class() -> None:
    best = np.eye(4)[[0, 1, 1, 0, 1, 2, 2, 3, 0]][None]
    assert public.read_text(best, ("", "a", "b", " ")) == "aab "


@needs("skimage")
@needs("rapidocr_onnxruntime")
def test_calibration_images_of_the_accuracy_bench_are_never_test_images() -> None:
    for name in installed():
        subject = SUBJECTS[name]()
        known = {image.tobytes() for image in subject.calibration}
        tested = [image.tobytes() for image in subject.images]
        assert len(tested) == len(subject.truths) > len(known) // 8 > 0
        assert not known & set(tested), name


def test_networks_of_packages_that_are_not_installed_are_left_out(monkeypatch) -> None:
    from tilewright.bench.accuracy import subjects as accuracy_subjects  # noqa: PLC0415  (its own view of packages)

    monkeypatch.setattr(accuracy_subjects, "find_spec", lambda package: None)
    assert set(SUBJECTS) - set(installed()) == set(OPTIONAL)


@needs("skimage")
def test_a_word_is_found_by_its_middle_and_a_square_without_text_by_all_of_it() -> None:
    rows, columns = public.DETECTOR_SIZE
    mask = np.zeros((rows, columns), bool)
    mask[20:30, 40:100] = True
    answer = np.packbits(mask).tobytes()
    there, beside = (30.0, 15.0, 110.0, 35.0), (30.0, 100.0, 110.0, 120.0)
    assert accuracy_subjects.text_found(answer, [there, beside]) == (1, 2)
    assert accuracy_subjects.text_found(answer, []) == (29, 32)


@needs("skimage")
def test_a_face_counts_where_half_of_both_boxes_is_shared() -> None:
    truth = (100.0, 100.0, 160.0, 180.0)
    assert accuracy_subjects.face_found("130 140 60 80", truth) == (1, 1)
    assert accuracy_subjects.face_found("130 140 60 30", truth) == (0, 1)
    assert accuracy_subjects.face_found("", truth) == (0, 1)
    assert accuracy_subjects.face_found("", ()) == (1, 1)
    assert accuracy_subjects.face_found("130 140 60 80", ()) == (0, 1)


def test_a_file_is_told_by_its_ends_without_blanks() -> None:
    taken = public.file_bytes(b"  \n" + bytes(range(65, 91)) + b"\n")
    assert taken.dtype == np.int32
    assert list(taken[0, :28]) == [*range(65, 91), 10, 256]
    assert list(taken[0, -30:]) == [256, 32, 32, 10, *range(65, 91)]


@needs("magika")
def test_every_ending_names_a_kind_that_the_classifier_knows() -> None:
    assert set(accuracy_data.ENDINGS.values()) <= set(public.file_kinds())


@needs("skimage")
def test_spelling_gives_a_point_a_character_less_the_edits() -> None:
    assert accuracy_data.edits("kitten", "sitting") == 3
    assert accuracy_data.spelling("partsof the", "parts of the") == (10, 10)
    assert accuracy_data.spelling("ports", "parts of") == (4, 7)
    assert accuracy_data.spelling("zzzzzzzz", "of") == (0, 2)
