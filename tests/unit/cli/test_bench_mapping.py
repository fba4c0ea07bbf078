"""`tilewright bench mapping`: a small study, its document and page, and what it refuses."""

import json

import pytest
from support.command_line import call

SMALL = ("--networks", "transformer_encoder", "--objectives", "edp", "--per-network", "1")
SHORT = ("--budget", "50", "--seeds", "1", "--methods", "random,structured")


def test_a_small_study_writes_its_document_and_its_page_and_goes_on(tmp_path):
    path, page = tmp_path / "m.json", tmp_path / "m.html"
    arguments = ("bench", "mapping", *SMALL, *SHORT, "--json", str(path), "--html", str(page))
    first = call(*arguments)
    assert first.exit_code == 0, first.stderr
    assert "Regret to the certified optimum" in first.stdout
    assert "structured" in page.read_text()
    document = json.loads(path.read_text())
    assert document["summary"]["bound_violations"] == 0
    assert document["summary"]["certified_layers"] == 1
    again = call(*arguments)
    assert "seed 0" not in again.stdout
    assert json.loads(path.read_text())["rows"] == document["rows"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--objectives", "edb"], "did you mean edp?"),
        (["--methods", "gama"], "did you mean gamma?"),
        (["--networks", "resnet81"], "did you mean resnet18?"),
        (["--hardware", "flexible-265"], "did you mean flexible-256?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(words, told):
    result = call("bench", "mapping", "--quick", *words)
    assert result.exit_code == 2
    assert told in result.stderr
