# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.sim.synth.record import Ecp5Counts, load_results


def test_fits_compares_every_resource_of_the_largest_ecp5():
    counts = Ecp5Counts(
        rtl="0", lut=83_640, lutram=0, ff=83_640, dp16kd=208, mult18=156, seconds=1.0
    )
    assert counts.fits
    for name in ("lut", "ff", "dp16kd", "mult18"):
        assert not replace(counts, **{name: getattr(counts, name) + 1}).fits


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "results.yaml"
    path.write_text("tool: x\nresults: {}\n")
    with pytest.raises(ConfigError, match="must hold tool, family and results"):
        load_results(path)
