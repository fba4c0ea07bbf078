# SPDX-License-Identifier: Apache-2.0
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine import hwconfig

ILLEGAL = {
    # rule: changes of the default configuration that break it and no earlier rule
    "macs_limit": {"block_in": 64, "block_out": 64, "batch": 2},
    "inp_bytes_two_tiles": None,
    "wgt_bytes_two_tiles": {"block_in": 32, "block_out": 32, "wgt_bytes": 1024},
    "acc_bytes_two_tiles": {"batch": 8, "block_out": 32, "acc_bytes": 1024},
    "out_bytes_two_tiles": None,
    "res_bytes_two_tiles": None,
    "param_bytes_two_tiles": {"block_out": 64, "param_bytes": 1024},
    "axi_within_acc_tile": {"block_out": 4, "axi_data_bits": 256, "vector_lanes": 4},
    "vector_lanes_within_tile": {"vector_lanes": 32},
    "vector_lanes_share": {"batch": 8, "block_out": 64, "block_in": 8, "vector_lanes": 4},
    "mac_lut_columns_within_tile": {"mac_lut_columns": 17},
    "int4_weights_two_beats": {
        "int4_weights": 1,
        "batch": 2,
        "block_in": 4,
        "block_out": 8,
        "axi_data_bits": 256,
    },
    "read_fifo_burst": None,
}
for _p in hwconfig.PARAMETERS:
    ILLEGAL[f"{_p.name}_range"] = {_p.name: 2 * _p.high if _p.power_of_two else _p.high + 1}
    if _p.power_of_two:
        # 12 is inside every range that holds a non-power; 1536 inside the byte ranges
        ILLEGAL[f"{_p.name}_power_of_two"] = {
            _p.name: next(v for v in (3, 12, 48, 1536) if _p.low <= v <= _p.high)
        }

UNREACHABLE = {name for name, changes in ILLEGAL.items() if changes is None}
"""Rules that follow from the others: 1 KiB holds two such tiles, the longest burst is 4 KiB."""


def holds(rule, values):
    return bool(eval(rule.expression, {"__builtins__": {}}, values))


def test_every_rule_has_a_case():
    assert set(ILLEGAL) == {rule.name for rule in hwconfig.RULES}


@pytest.mark.parametrize(
    "rule", [r for r in hwconfig.RULES if r.name not in UNREACHABLE], ids=lambda r: r.name
)
def test_each_rule_refuses_an_illegal_value_with_its_text(rule):
    changes = ILLEGAL[rule.name]
    values = hwconfig.HwConfig().parameters() | changes
    broken = [r.name for r in hwconfig.RULES if not holds(r, values)]
    assert broken[0] == rule.name, broken
    with pytest.raises(ConfigError) as caught:
        hwconfig.HwConfig(**changes)
    error = caught.value
    assert (error.rule, error.field, error.remedy) == (rule.text, rule.field, rule.remedy)
    assert error.value == values[rule.field]
    assert rule.text in str(error)
    assert rule.field in str(error)


@st.composite
def drawn_values(draw):
    values = {}
    for p in hwconfig.PARAMETERS:
        if p.power_of_two:
            low, high = p.low.bit_length() - 1, p.high.bit_length() - 1
            values[p.name] = 1 << draw(st.integers(low, high), label=p.name)
        else:
            values[p.name] = draw(st.integers(p.low, p.high), label=p.name)
    if draw(st.booleans(), label="no columns in LUTs"):  # many a draw is illegal otherwise
        values["mac_lut_columns"] = 0
    return values


@settings(deadline=None)
@given(drawn_values())
def test_construction_succeeds_exactly_when_a_separate_statement_of_the_rules_holds(v):
    out_tile = v["batch"] * v["block_out"]
    legal = (
        out_tile * v["block_in"] <= 4096
        and v["inp_bytes"] // (v["batch"] * v["block_in"]) >= 2
        and v["wgt_bytes"] // (v["block_in"] * v["block_out"]) >= 2
        and v["acc_bytes"] // (4 * out_tile) >= 2
        and min(v["out_bytes"], v["res_bytes"]) // out_tile >= 2
        and v["param_bytes"] // (16 * v["block_out"]) >= 2
        and v["axi_data_bits"] // 8 <= 4 * out_tile
        and out_tile / 64 <= v["vector_lanes"] <= out_tile
        and v["axi_burst_beats"] * v["axi_data_bits"] // 8 <= 4096
        and v["mac_lut_columns"] <= v["block_out"]
        and (not v["int4_weights"] or v["block_in"] * v["block_out"] >= v["axi_data_bits"] // 4)
    )
    try:
        hwconfig.HwConfig(**v)
    except ConfigError:
        assert not legal
    else:
        assert legal


@settings(deadline=None)
@given(drawn_values(), st.sampled_from(sorted(UNREACHABLE)))
def test_rules_that_no_case_reaches_follow_from_the_others(values, name):
    others = [r for r in hwconfig.RULES if r.name != name]
    assume(all(holds(r, values) for r in others))
    assert holds(next(r for r in hwconfig.RULES if r.name == name), values)


@settings(deadline=None)
@given(drawn_values())
def test_depths_times_tiles_are_the_buffers(values):
    try:
        hw = hwconfig.HwConfig(**values)
    except ConfigError:
        return
    for name, tile in (
        ("inp", hw.inp_tile_bytes), ("wgt", hw.wgt_tile_bytes), ("acc", hw.acc_tile_bytes),
        ("out", hw.out_tile_bytes), ("res", hw.out_tile_bytes), ("uop", 8),
        ("param", hw.param_tile_bytes),
    ):  # fmt: skip
        assert getattr(hw, f"{name}_depth") * tile == getattr(hw, f"{name}_bytes")
        assert getattr(hw, f"{name}_depth") >= 2
    assert hw.acc_depth % hw.acc_banks == 0
    assert hw.axi_bytes * 8 == hw.axi_data_bits


@settings(deadline=None)
@given(st.data())
def test_bank_mask_is_the_union_of_the_banks_of_each_tile(data):
    hw = hwconfig.HwConfig(
        acc_bytes=data.draw(st.sampled_from([1024, 2048, 4096, 131072])),
        acc_bank_count=data.draw(st.sampled_from([2, 4])),
        block_out=64,
    )
    first = data.draw(st.integers(0, hw.acc_depth - 1))
    count = data.draw(st.integers(1, hw.acc_depth - first))
    per_bank = hw.acc_depth // hw.acc_banks
    banks = {tile // per_bank for tile in range(first, first + count)}
    assert hw.acc_bank_mask(first, count) == sum(1 << bank for bank in banks)
    assert hw.acc_bank_mask(0, hw.acc_depth) == (1 << hw.acc_banks) - 1


def test_the_hash_depends_on_every_parameter_and_not_on_the_name():
    base = hwconfig.HwConfig()
    assert base.with_(name="other").config_hash == base.config_hash
    changed = {
        "batch": 2, "block_in": 8, "block_out": 8, "vector_lanes": 8, "mac_pipeline": 3,
        "mac_packed": 0, "axi_data_bits": 128, "axi_burst_beats": 8, "read_outstanding": 3,
        "write_outstanding": 3, "inp_bytes": 1 << 16, "wgt_bytes": 1 << 16, "acc_bytes": 1 << 16,
        "out_bytes": 1 << 16, "uop_bytes": 1 << 16, "res_bytes": 1 << 16, "param_bytes": 1 << 16,
        "mac_lut_columns": 3, "activation_table": 1, "row_unit": 1,
        "int4_weights": 1, "acc_bank_count": 2,
    }  # fmt: skip
    assert set(changed) == {p.name for p in hwconfig.PARAMETERS}
    hashes = set()
    for name, value in changed.items():
        extra = {"vector_lanes": 8} if name == "block_out" else {}
        hashes.add(base.with_(**{name: value}, **extra).config_hash)
    assert len(hashes | {base.config_hash}) == len(changed) + 1
    assert 0 <= base.config_hash < 2**32


@pytest.mark.parametrize("name", hwconfig.named_configs())
def test_named_configurations_load_and_carry_their_name(name):
    hw = hwconfig.load_hwconfig(name)
    assert hw.name == name
    assert hwconfig.HwConfig.from_mapping(yaml.safe_load(hw.to_yaml())) == hw


def test_pynq_16x16_is_the_default():
    assert hwconfig.load_hwconfig("pynq-16x16").parameters() == hwconfig.HwConfig().parameters()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch: 1\nblok_in: 16\n", "blok_in"),
        ("batch: 1\nblock_in: [\n", "valid YAML"),
        ("batch: 3\n", "power of two"),
        ("batch: '1'\n", "must be an integer"),
        ("- 1\n", "mapping of keys"),
        ("", "mapping of keys"),
        ("1: 2\n", "unknown key"),
        ("batch: 1\n\tblock_in: 1\n", "valid YAML"),
        ("a: &x [*x]\n? [1]\n: 2\n", "valid YAML"),
    ],
)
def test_bad_yaml_gives_one_configuration_error(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        hwconfig.load_hwconfig(path)


def test_a_key_that_is_given_twice_is_refused(tmp_path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("batch: 1\nblock_in: 8\nbatch: 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="given twice") as caught:
        hwconfig.load_hwconfig(path)
    assert caught.value.field.endswith(":3")


def test_hardware_without_an_option_keeps_the_identity_that_it_had_before_the_option():
    assert hwconfig.load_hwconfig("tiny-4x4").config_hash == 0x1BB4F631
