# SPDX-License-Identifier: Apache-2.0
"""The identity of a fidelity changes with whatever its cycles depend on, and with nothing else."""

from pathlib import Path

import pytest

from tilewright.host.lowering import emit
from tilewright.host.machine import area, isa
from tilewright.tuner.measure import backends as module
from tilewright.tuner.measure.backends import LOWERING
from tilewright.tuner.measure.oracle import rtl_identity


@pytest.fixture(autouse=True)
def _fresh():
    module._identity.cache_clear()
    yield
    module._identity.cache_clear()


def test_identity_follows_the_rtl_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = rtl_identity()
    assert before.startswith("rtl-")
    changed = tmp_path / "tw_gemm.sv"
    changed.write_text("// another accelerator\n")
    module._identity.cache_clear()
    monkeypatch.setattr(module, "read_manifest", lambda: [changed])
    assert rtl_identity() != before


@pytest.mark.parametrize(("source", "counts"), [(emit, True), (isa, True), (area, False)])
def test_identity_follows_what_makes_programs(source, counts: bool) -> None:
    assert (Path(source.__file__) in module._module_files(LOWERING)) is counts


def test_imports_of_every_form_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("import a.b\nfrom c import d, e\ndef f():\n    from g.h import i\n")
    assert list(module._imports(path)) == ["a.b", "c", "c.d", "c.e", "g.h", "g.h.i"]
