# SPDX-License-Identifier: Apache-2.0
"""The temperature, from the files in which Linux tells it."""

import pytest

from tilewright.host.runtime.temperature import chip_temperature


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
