# SPDX-License-Identifier: Apache-2.0
"""`run` on pictures: a trained detector finds the digits of scenes that it has not seen."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.command_line import call, refusal
from support.randomness import fresh_rng

import tilewright as tw

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DETECTOR, IMAGES = EXAMPLES / "detector" / "detector.onnx", EXAMPLES / "detector" / "images"
REFERENCE = ("--device", "reference")

pytestmark = pytest.mark.usefixtures("told_members")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("look") / "detector.tw"
    words = ("compile", str(DETECTOR), "--calibration", str(IMAGES), "--hw", "pynq-16x16-rows")
    done = call(*words, "--search", "0", "-o", str(path))
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(*words: str) -> dict:
    done = call("run", *words, "--json", "told.json")
    assert done.exit_code == 0, done.output
    return json.loads(Path("told.json").read_text())


def overlap(one: list[float], other: list[float]) -> float:
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    inside = np.clip(high - low, 0, None).prod()
    areas = [np.subtract(box[2:], box[:2]).prod() for box in (one, other)]
    return float(inside / (sum(areas) - inside))


def test_digits_of_new_scenes_are_found_where_they_were_drawn(compiled, folder) -> None:
    """Scenes of the training's kind, of digits that it had not: int8, letterboxed."""
    sys.path.insert(0, str(EXAMPLES))
    from detector.digit_detector import draw_scene  # noqa: PLC0415  (of the examples)
    from networks.digits import load_digits  # noqa: PLC0415  (of the examples)

    digits, rng, scenes = load_digits(), fresh_rng(), []
    Path("scenes").mkdir()
    for number in range(4):
        images, labels = digits.test_images, digits.test_labels
        scenes.append(draw_scene(rng, images, labels, rows=128, columns=112, most=5))
        Image.fromarray(scenes[-1].pixels).save(f"scenes/{number}.png")
    rows = document(str(compiled), "--input", "scenes", *REFERENCE, "--draw", "seen")["rows"]
    right = total = 0
    for scene, row in zip(scenes, rows, strict=True):
        for box, label in zip(scene.boxes.tolist(), scene.classes.tolist(), strict=True):
            total += 1
            right += any(
                one["label"] == str(label) and overlap(one["box"], box) > 0.5
                for one in row["found"]
            )
        assert Path(row["drawn"]).is_file()
    assert right >= 0.7 * total, (right, total)


def test_a_picture_is_drawn_once_more_over_its_own_file_and_over_no_other(compiled, folder) -> None:
    words = ("run", str(compiled), "--input", str(IMAGES / "0.jpg"), *REFERENCE, "--draw")
    for _ in range(2):
        assert call(*words, "seen.png").exit_code == 0
    assert Image.open("seen.png").size == Image.open(IMAGES / "0.jpg").size
    Image.new("RGB", (4, 4)).save("mine.png")
    before = Path("mine.png").read_bytes()
    assert "must be a new file" in refusal(*words, "mine.png")
    assert Path("mine.png").read_bytes() == before
    assert "must end in .png" in refusal(*words, "seen.jpg")


def test_a_folder_of_ones_own_is_not_drawn_into(compiled, folder) -> None:
    Path("photos").mkdir()
    Path("photos/keep.txt").write_text("mine")
    words = ("run", str(compiled), "--input", str(IMAGES), *REFERENCE, "--draw", "photos")
    assert "must be a new or empty folder" in refusal(*words)
    assert [p.name for p in Path("photos").iterdir()] == ["keep.txt"]


def test_drawn_names_stay_apart_and_listings_hold_a_name_a_line(compiled, folder) -> None:
    Path("in").mkdir()
    Path("mine").mkdir()
    for name in ("a b.jpg", "a-b.jpg", "x\ny.jpg"):
        (Path("in") / name).write_bytes((IMAGES / "0.jpg").read_bytes())
    drawn = {row["drawn"] for row in document(str(compiled), "--input", "in", *REFERENCE,
                                              "--draw", "seen")["rows"]}  # fmt: skip
    assert len(drawn) == 3
    (Path("seen") / "x").write_text("precious")
    (Path("one")).mkdir()
    (Path("one") / "z.jpg").write_bytes((IMAGES / "0.jpg").read_bytes())
    assert call("run", str(compiled), "--input", "one", *REFERENCE, "--draw", "seen").exit_code == 0
    assert (Path("seen") / "x").read_text() == "precious"


def test_places_that_would_replace_each_other_are_refused(compiled, folder) -> None:
    words = ("run", str(compiled), *REFERENCE, "--input")
    both = refusal(*words, str(IMAGES / "0.jpg"), "--draw", "s.png", "--json", "s.png")
    assert "must be another file" in both
    Path("in").mkdir()
    (Path("in") / "a.jpg").write_bytes((IMAGES / "0.jpg").read_bytes())
    assert "another folder than --input" in refusal(*words, "in", "--draw", "in")
    assert [p.name for p in Path("in").iterdir()] == ["a.jpg"]


def test_an_image_that_cannot_be_read_ends_nothing(compiled, folder) -> None:
    Path("some").mkdir()
    for number in (0, 2):
        Path(f"some/{number}.jpg").write_bytes((IMAGES / f"{number}.jpg").read_bytes())
    Path("some/1.jpg").write_bytes(b"no picture")
    done = call("run", str(compiled), "--input", "some", *REFERENCE, "--json", "told.json")
    assert done.exit_code == 2
    assert "1.jpg: must be an image that can be read" in done.stderr
    rows = json.loads(Path("told.json").read_text())["rows"]
    assert [row["picture"] for row in rows] == ["0.jpg", "2.jpg"]


def test_it_stops_after_so_many_pictures_and_tells_labels_of_a_file(compiled, folder) -> None:
    Path("names").write_text("".join(f"digit \x1b[31m{n}\n" for n in range(10)))
    words = (str(compiled), "--input", str(IMAGES), *REFERENCE, "--labels", "names")
    told = document(*words, "--task", "detect", "--frames", "2", "--score", "0.6")
    assert told["summary"]["pictures"] == len(told["rows"]) == 2
    found = [each for row in told["rows"] for each in row["found"]]
    assert found
    assert all(each["score"] >= 0.6 and each["label"].startswith("digit") for each in found)
    printed = call("run", *words, "--frames", "1")
    assert "\x1b[31m" not in printed.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "classify"), "needs a network with one vector of classes"),
        (("--task", "detect", "--head", "ssd"), "shapes of the head ssd"),
        (("--task", "detect", "--score", "1.5"), "--score"),
        (("--task", "detect", "--output", "o.npz"), "is for tensors"),
        (("--task", "detect", "--camera", "0"), "give one of --input and --camera"),
        (("--task", "dectect"), "detect"),
        (("--labels", "absent"), "cannot be read"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(compiled, folder, words, said) -> None:
    given = ("run", str(compiled), "--input", str(IMAGES / "0.jpg"), *REFERENCE, *words)
    assert said in refusal(*given)


def test_options_of_pictures_are_refused_for_tensors(compiled, folder) -> None:
    assert "is of --task" in refusal("run", str(compiled), "--random", "--score", "0.5")
    needs = refusal("run", str(compiled), "--task", "detect")
    assert "give one of --input and --camera" in needs


def test_python_looks_at_pictures_and_takes_what_the_model_states(compiled) -> None:
    with tw.open_network(compiled, device="reference") as network:
        frames = list(network.watch(IMAGES))
        again = network.see(Image.open(IMAGES / "0.jpg"), "again")
    assert [frame.title for frame in frames] == [f"{n}.jpg" for n in range(6)]
    assert again.seen.describe() == frames[0].seen.describe()
    assert frames[0].seen.task == "detect"
    wrong = {"task": "guess", "head": "guess", "fit": "guess", "score": 2.0, "mean": (1, 2)}
    for name, value in wrong.items():
        with (
            pytest.raises(tw.TilewrightError, match=name),
            tw.open_network(compiled, device="reference", **{name: value}) as network,
        ):
            network.see(IMAGES / "0.jpg")
