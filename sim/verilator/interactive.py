# SPDX-License-Identifier: Apache-2.0
"""Poke at a module of the RTL from a notebook: set pins, tick the clock, look at pins and waves.

In the spirit of PyVerilator, on this package's own builds (README: why not PyVerilator itself)::

    with load("tw_fifo", Width=8, Depth=4) as sim:
        sim.io.rst_i = 1
        sim.clock.tick()
        sim.io.rst_i = 0
        sim.io.push_i, sim.io.data_i = 1, 0x5A
        sim.clock.tick()
        print(sim.io.valid_o, hex(sim.io.data_o))

A pin is an int (packed bits, unsigned) or, for an unpacked array, a list of ints. Builds are cached
by the content of their sources and parameters. For whole programs use `VerilatorDevice`: stepping
from Python is some hundred times slower.
"""

from __future__ import annotations

import ctypes
import json
import re
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import BuildError, ConfigError, DeviceError
from tilewright.host.common.names import counted
from tilewright.sim.tools import build_cache
from tilewright.sim.tools.toolchain import find_compiler, find_verilator, verilator_include
from tilewright.sim.verilator import build

_FLAGS: Final = ("--cc", "--assert", "--no-timing", "-Wall", "--x-initial", "fast")
_PREFIX: Final = "Vunit"
_CLOCKS: Final = ("clk_i", "aclk", "clk", "clock")
_HALF_PERIOD: Final = 5
_ROOM: Final = 1 << 16
"""Bytes that `Interactive.stream` takes although nobody waits for them."""
_PIN: Final = re.compile(r"VL_(IN|OUT)(?:8|16|64|W)?\(&(\w+),(\d+),(\d+)(?:,\d+)?\);")
_ARRAY: Final = re.compile(r"VlUnpacked<\w+(?:<\d+>)?/\*(\d+):(\d+)\*/, (\d+)> &(\w+);")


@dataclass(frozen=True, kw_only=True)
class Port:
    """A pin of the module.

    Attributes:
        is_input: driven from outside; of an array, whose direction the generated code does not
            tell, that its name does not end in ``_o``.
    """

    name: str  # as in the RTL
    bits: int  # of an element
    elements: int  # of an unpacked array; 0: not an array
    is_input: bool

    @property
    def element_bytes(self) -> int:
        """Bytes that Verilator gives an element: 1, 2, 4, 8, or whole 32-bit words."""
        for size in (1, 2, 4, 8):
            if self.bits <= 8 * size:
                return size
        return -(-self.bits // 32) * 4


class Pins:
    """The pins by name: ``io.x = 1``, ``io.y``; ``dir(io)`` lists them."""

    _ports: dict[str, Port]
    _memory: dict[str, Any]

    def __init__(self, ports: dict[str, Port], addresses: dict[str, int]) -> None:
        memory = {
            name: (ctypes.c_uint8 * (port.element_bytes * max(1, port.elements))).from_address(
                addresses[name]
            )
            for name, port in ports.items()
        }
        object.__setattr__(self, "_ports", ports)
        object.__setattr__(self, "_memory", memory)

    def __dir__(self) -> list[str]:
        """Names of the pins."""
        return list(self._ports)

    def __getattr__(self, name: str) -> int | list[int]:
        """Value of a pin."""
        port = self._port(name)
        data, size = bytes(self._memory[name]), port.element_bytes
        values = [
            int.from_bytes(data[i * size : (i + 1) * size], "little")
            for i in range(max(1, port.elements))
        ]
        return values if port.elements else values[0]

    def __setattr__(self, name: str, value: int | Sequence[int]) -> None:
        """Drive an input; outputs follow at the next `Interactive.settle` or tick."""
        port = self._port(name)
        if not port.is_input:
            raise ConfigError("only inputs can be driven", field=name, value="an output")
        values = [value] if isinstance(value, int) else list(value)
        if len(values) != max(1, port.elements):
            raise ConfigError(
                f"must be {counted(port.elements or 1, 'value')}", field=name, value=len(values)
            )
        for each in values:
            if not -(1 << (port.bits - 1)) <= int(each) < 1 << port.bits:
                raise ConfigError(f"must fit {port.bits} bits", field=name, value=int(each))
        mask = (1 << port.bits) - 1
        self._memory[name][:] = b"".join(
            (int(each) & mask).to_bytes(port.element_bytes, "little") for each in values
        )

    def _port(self, name: str) -> Port:
        try:
            return self._ports[name]
        except KeyError:
            known = ", ".join(self._ports)
            raise AttributeError(f"no pin {name!r}; the module has {known}") from None


class Clock:
    """The clock of a module."""

    def __init__(self, simulation: Interactive, pin: str) -> None:
        self._simulation = weakref.proxy(simulation)
        self.pin = pin
        self.cycles = 0
        """Rising edges so far."""

    def tick(self, cycles: int = 1) -> None:
        """Whole clock cycles: inputs settle, the clock rises and falls."""
        self._simulation.run_clock(self.pin, cycles)
        self.cycles += cycles


class Interactive:
    """A simulated module, with its pins by name, their values and its clock; `load` makes one."""

    def __init__(self, library: Path, ports: dict[str, Port], clock: str) -> None:
        signatures: dict[str, tuple[list[Any], Any]] = {
            "tw_unit_create": ([], ctypes.c_void_p),
            "tw_unit_destroy": ([ctypes.c_void_p], None),
            "tw_unit_pin": ([ctypes.c_void_p, ctypes.c_uint32], ctypes.c_void_p),
            "tw_unit_evaluate": ([ctypes.c_void_p, ctypes.c_uint64], ctypes.c_int32),
            "tw_unit_tick": (
                [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64],
                ctypes.c_int32,
            ),
            "tw_unit_stream": (
                [
                    *(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint64),
                    *(ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p),
                    *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
                ],
                ctypes.c_int64,
            ),
            "tw_unit_error": ([ctypes.c_void_p], ctypes.c_char_p),
            "tw_unit_open_waves": ([ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int32),
            "tw_unit_close_waves": ([ctypes.c_void_p], None),
        }
        self._library = build_cache.bind_library(library, {}, signatures)
        self._handle = ctypes.c_void_p(self._library.tw_unit_create())
        self.ports = ports
        addresses = {
            name: int(self._library.tw_unit_pin(self._handle, index))
            for index, name in enumerate(ports)
        }
        self.io = Pins(ports, addresses)
        self.clock = Clock(self, clock)
        self.settle()

    def __enter__(self) -> Interactive:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __del__(self) -> None:
        """Close it."""
        if getattr(self, "_handle", None):
            self.close()

    def settle(self) -> None:
        """Let outputs follow the inputs; no time passes."""
        self.advance(0)

    def advance(self, units: int) -> None:
        """Settle, then let units of the wave file's time pass (a cycle has 10)."""
        self._check(self._library.tw_unit_evaluate(self._open(), units) != 0)

    def run_clock(self, pin: str, cycles: int) -> None:
        """Whole cycles of a clock pin; `Clock.tick` counts them, too."""
        index = list(self.ports).index(pin)
        self._check(self._library.tw_unit_tick(self._open(), index, cycles, _HALF_PERIOD) != 0)

    def stream(
        self,
        data: bytes,
        wanted: int,
        *,
        source: tuple[str, str, str],
        sink: tuple[str, str, str],
        quiet: int,
    ) -> bytes:
        """Bytes through a source and a sink of the module, some in every cycle."""
        room = len(data) + wanted + _ROOM
        got = ctypes.create_string_buffer(room)
        numbers = [list(self.ports).index(name) for name in (self.clock.pin, *source, *sink)]
        came = self._library.tw_unit_stream(
            *(self._open(), (ctypes.c_uint32 * len(numbers))(*numbers), _HALF_PERIOD),
            *(data, len(data), got, wanted, room, quiet),
        )
        self._check(came < 0)
        return got.raw[:came]

    def _check(self, stopped: bool) -> None:
        if stopped:
            text = self._library.tw_unit_error(self._handle).decode(errors="replace")
            raise DeviceError(f"the RTL stopped the simulation: {text}", field="simulation")

    def start_waves(self, path: Path | str) -> None:
        """Record every signal to an FST file from now on."""
        handle = self._open()
        folder = Path(path).parent
        if not folder.is_dir() or not self._library.tw_unit_open_waves(handle, str(path).encode()):
            raise DeviceError("the wave file must be writable", field="waves", value=str(path))

    def stop_waves(self) -> None:
        """Complete the wave file."""
        self._library.tw_unit_close_waves(self._open())

    def close(self) -> None:
        """Release the simulation and complete the wave file. Idempotent."""
        if self._handle:
            # The pins are the model's memory: they must not be read when it is gone.
            self.io = Pins({}, {})
            self._library.tw_unit_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise DeviceError("the simulation is closed", field="simulation")
        return self._handle


def load(
    module: str,
    *,
    clock: str = "",
    sources: Sequence[Path] | None = None,
    **parameters: int | str,
) -> Interactive:
    """Simulate a module of the RTL by itself."""
    files = [
        build.LINT_WAIVERS,
        *(build.read_manifest(build.MANIFEST) if sources is None else sources),
    ]
    library = _build(module, files, parameters)
    ports = _ports((library.parent / "ports.json").read_text(encoding="utf-8"))
    pins = [clock] if clock else [name for name in _CLOCKS if name in ports]
    if not pins or pins[0] not in ports:
        raise ConfigError(
            f"module {module} must have its clock among its pins",
            field="clock",
            value=clock or "none",
            remedy=f"name one of {', '.join(ports)}",
        )
    return Interactive(library, ports, pins[0])


def _declared(header: str) -> list[Port]:
    """The ports that the generated header of the model declares."""
    pins = [
        Port(name=name, bits=int(high) - int(low) + 1, elements=0, is_input=direction == "IN")
        for direction, name, high, low in _PIN.findall(header)
    ]
    arrays = [
        Port(
            name=name,
            bits=int(high) - int(low) + 1,
            elements=int(elements),
            is_input=not name.endswith("_o"),
        )
        for high, low, elements, name in _ARRAY.findall(header)
    ]
    return pins + arrays


def _ports(text: str) -> dict[str, Port]:
    return {entry["name"]: Port(**entry) for entry in json.loads(text)}


def _build(module: str, files: Sequence[Path], parameters: dict[str, int | str]) -> Path:
    harness = build.HARNESS_DIR / "interactive.h"
    flags = [*build.compiler_flags(waves=True), "-O1", "-w"]
    key = "unit-" + build_cache.digest(
        [
            module,
            json.dumps(parameters, sort_keys=True),
            *_FLAGS,
            *flags,
            *(f"{path.name}\0{build_cache.source_text(path)}" for path in (*files, harness)),
            _SHIM,
            _PIN.pattern + _ARRAY.pattern,
            find_verilator().version,
            find_compiler().version,
        ]
    )

    def make(work: Path, output: Path) -> dict[str, str]:
        verilated = work / "verilated"
        build.run_verilator(
            [
                *_FLAGS,
                "--trace-fst",
                *(f"-G{name}={value}" for name, value in parameters.items()),
                "--top-module",
                module,
                "--prefix",
                _PREFIX,
                "--Mdir",
                str(verilated),
                *map(str, files),
            ]
        )
        header = (verilated / f"{_PREFIX}.h").read_text(encoding="utf-8")
        ports = _declared(header)
        if not ports:
            raise BuildError("the module must have pins", field=module)
        listed = json.dumps([asdict(port) for port in ports])
        (output.parent / "ports.json").write_text(listed, encoding="utf-8")
        _compile(work, verilated, [port.name for port in ports], flags, output)
        return {"module": module}

    return build_cache.cached_library(key, make)


_SHIM: Final = """
#include "interactive.h"
#include "{prefix}.h"
using Model = InteractiveModel<{prefix}>;
void vl_stop(const char* file, int line, const char*) {{
  throw RtlStopped(Where("assertion or $stop", file, line));
}}
void vl_fatal(const char* file, int line, const char*, const char* text) {{
  throw RtlStopped(Where(text, file, line));
}}
void vl_finish(const char* file, int line, const char*) {{
  throw RtlStopped(Where("$finish", file, line));
}}
TW_API void* tw_unit_create() {{ return new Model; }}
TW_API void tw_unit_destroy(Model* model) {{ delete model; }}
TW_API int32_t tw_unit_evaluate(Model* model, uint64_t units) {{ return model->Evaluate(units); }}
TW_API const char* tw_unit_error(Model* model) {{ return model->error.c_str(); }}
TW_API int32_t tw_unit_open_waves(Model* model, const char* p) {{ return model->OpenWaves(p); }}
TW_API void tw_unit_close_waves(Model* model) {{ model->CloseWaves(); }}
TW_API void* tw_unit_pin(Model* model, uint32_t index) {{
  void* const pins[] = {{{pins}}};
  return pins[index];
}}
TW_API int32_t tw_unit_tick(Model* model, uint32_t clock, uint64_t cycles, uint64_t half) {{
  return model->Tick(static_cast<uint8_t*>(tw_unit_pin(model, clock)), cycles, half);
}}
TW_API int64_t tw_unit_stream(Model* model, const uint32_t* numbers, uint64_t half,
                              const uint8_t* sent, int64_t size, uint8_t* got, int64_t wanted,
                              int64_t room, int64_t quiet) {{
  uint8_t* pins[7];
  for (int i = 0; i < 7; ++i) pins[i] = static_cast<uint8_t*>(tw_unit_pin(model, numbers[i]));
  return model->Stream(pins[0], half, pins + 1, pins + 4, sent, size, got, wanted, room, quiet);
}}
"""
"""What is generated around interactive.h for a module."""


def _compile(
    work: Path, verilated: Path, pins: Sequence[str], flags: Sequence[str], output: Path
) -> None:
    include = verilator_include(find_verilator())
    compat, libraries = build.wave_libraries()
    paths = [
        f"-I{build.HARNESS_DIR}",
        f"-isystem{verilated}",
        f"-isystem{include}",
        f"-isystem{include / 'vltstd'}",
    ]
    unit = work / "unit.cpp"
    unit.write_text(
        "".join(f'#include "{path}"\n' for path in sorted(verilated.glob("*.cpp")))
        + _SHIM.format(prefix=_PREFIX, pins=", ".join(f"&model->top->{name}" for name in pins)),
        encoding="utf-8",
    )
    runtime = [
        str(build.shared_object(include / f"{name}.cpp", [*flags, *compat, *paths[1:]], waves=True))
        for name in build.runtime_units(verilated, _PREFIX)
    ]
    model = build_cache.compile_objects([([*flags, *paths], unit)], work, 1)
    build_cache.link_library([*model, *runtime], output, *libraries)
