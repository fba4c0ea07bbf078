# SPDX-License-Identifier: Apache-2.0
"""Stands in for Vivado while its scripts run: every command, option, name and file is checked.

What a command may be given is in ``commands.yaml``, what IP offers in ``catalog.yaml``. A script
that passes here is spelled right and builds the design that `Design` checks. It was not
synthesised.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml
from support.vivado.design import Cell, Design, check_axi, core_interface
from support.vivado.rtl import Core, read_core
from support.vivado.tcl import ScriptError, run_script

HERE = Path(__file__).resolve().parent
VERSION = "2024.1"


_STEPS = ("OPT", "PLACE", "PHYS_OPT", "ROUTE", "POST_ROUTE_PHYS_OPT")
_RUN_PROPERTIES: dict[str, tuple[str, ...]] = {
    **{f"STEPS.{step}_DESIGN.ARGS.DIRECTIVE": ("Explore", "Default") for step in _STEPS},
    **{f"STEPS.{step}_DESIGN.IS_ENABLED": ("true",) for step in _STEPS if "PHYS" in step},
}
"""Of impl_1, those that the scripts set (UG835, UG904), and what they may be."""


@functools.cache
def _data(name: str) -> Any:
    return yaml.safe_load((HERE / name).read_text(encoding="utf-8"))


def commands() -> dict[str, Any]:
    return {name: rule for name, rule in _data("commands.yaml").items() if name != "source"}


def catalog() -> dict[str, Any]:
    return _data("catalog.yaml")


def split_list(text: str) -> list[str]:
    """The elements of a Tcl list of braces, quotes and plain words."""
    words, position = [], 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == "{":
            depth, end = 1, position + 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            words.append(text[position + 1 : end - 1])
            position = end
        elif text[position] == '"':
            end = text.index('"', position + 1)
            words.append(text[position + 1 : end])
            position = end + 1
        else:
            end = position
            while end < len(text) and not text[end].isspace():
                end += 1
            words.append(text[position:end].replace("\\ ", " "))
            position = end
    return words


class Vivado:
    """One run of Vivado in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        boards: bool = False,
        setup_slack: float = 0.25,
        hold_slack: float = 0.02,
        outputs: str = "work/design",
        failing_run: str = "",
    ) -> None:
        self.folder = folder
        self.boards = boards
        self.outputs = outputs
        self.failing_run = failing_run
        self.slack = {"setup": setup_slack, "hold": hold_slack}
        self.design: Design | None = None
        self.core: Core | None = None
        self.said: list[str] = []
        self.called: list[str] = []
        self._project: dict[str, str] = {}
        self._added: list[Path] = []
        self._read: list[Path] = []
        self._repository = ""
        self._catalogued = False
        self._steps: list[str] = []
        self._disk: Path | None = None
        self._runs: dict[str, dict[str, str]] = {}
        """Properties of the runs of a project on disk."""
        self._closed = 0

    def run(self, script: str = "build.tcl") -> None:
        """Run ``vivado -mode batch -source`` in the folder."""
        run_script(f"source {script}", self.folder, commands(), self.answer)

    def answer(self, name: str, words: list[str]) -> str:
        """What a command returns."""
        if name == "puts":
            self.said.append(words[-1])
            return ""
        self.called.append(name)
        options, arguments = self._parse(name, words)
        method = getattr(self, "_" + name.replace("::", "_"))
        return method(options, arguments) or ""

    def _parse(self, name: str, words: list[str]) -> tuple[dict[str, str], list[str]]:
        rule = commands()[name]
        flags = {*rule.get("flags", ()), "quiet", "verbose"}
        values = rule.get("values", {})
        options: dict[str, str] = {}
        arguments: list[str] = []
        left = iter(words)
        for word in left:
            if not re.fullmatch(r"-[a-zA-Z]\w*", word):
                arguments.append(word)
                continue
            option = word[1:]
            if option in flags:
                options[option] = "1"
            elif option in values:
                value = next(left, None)
                if value is None:
                    raise ScriptError(f"{name}: {word} needs a value")
                allowed = values[option]
                if allowed is not None and value not in allowed:
                    raise ScriptError(f"{name}: {word} cannot be {value}")
                options[option] = value
            else:
                raise ScriptError(f"{name}: no option {word}")
        fewest, most = rule["arguments"]
        if not fewest <= len(arguments) <= most:
            raise ScriptError(f"{name}: {len(arguments)} arguments")
        return options, arguments

    # -- projects and files -----------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file():
            raise ScriptError(f"no file {name}")
        return path

    def _create_project(self, options, arguments):
        if self._project:
            raise ScriptError("a project is open")
        if options.get("part") not in catalog()["parts"]:
            raise ScriptError(f"no part {options.get('part')}")
        if "in_memory" not in options and len(arguments) != 2:
            raise ScriptError("a project on disk needs a name and a folder")
        self._project = {"part": options["part"]}
        self._added, self._catalogued, self._runs, self._disk = [], False, {}, None
        if "in_memory" not in options:
            self._disk = self._path(arguments[1]) / f"{arguments[0]}.runs"
            self._runs = {"synth_1": {}, "impl_1": {}}
        return "project"

    def _close_project(self, options, arguments):
        self._need_project()
        self._project = {}
        self._closed += 1

    def _need_project(self):
        if not self._project:
            raise ScriptError("no project is open")

    def _current_project(self, options, arguments):
        self._need_project()
        return "project"

    def _current_fileset(self, options, arguments):
        self._need_project()
        return "sources_1"

    def _add_files(self, options, arguments):
        self._need_project()
        if options.get("fileset", "sources_1") not in {"sources_1", "constrs_1"}:
            raise ScriptError(f"no fileset {options['fileset']}")
        if options.get("fileset") == "constrs_1":
            self._read_xdc({}, arguments)
            return
        self._added += [self._existing(name) for name in split_list(arguments[0])]

    def _get_files(self, options, arguments):
        design = self._need_design()
        if arguments != [f"{design.name}.bd"] or not design.saved:
            raise ScriptError(f"no file {' '.join(arguments)}")
        return f"work/design/{design.name}/{design.name}.bd"

    def _update_compile_order(self, options, arguments):
        if options.get("fileset", "sources_1") != "sources_1":
            raise ScriptError(f"no fileset {options['fileset']}")

    def _read_verilog(self, options, arguments):
        self._read.append(self._existing(arguments[0]))

    def _read_xdc(self, options, arguments):
        path = self._existing(arguments[0])
        names = ("set_false_path", "get_pins")
        run_script(f"source {{{path.name}}}", path.parent, names, self.answer)
        self._read.append(path)

    def _auto_detect_xpm(self, options, arguments):
        self._need_project()

    def _version(self, options, arguments):
        return VERSION

    def _set_false_path(self, options, arguments):
        if not {"from", "to", "through"} & set(options):
            raise ScriptError("set_false_path: from where to where?")

    def _get_pins(self, options, arguments):
        return ""

    # -- properties -------------------------------------------------------------------------

    def _set_property(self, options, arguments):
        if "dict" in options:
            if len(arguments) != 2:
                raise ScriptError("set_property -dict: a list and an object")
            words = split_list(arguments[0])
            if len(words) % 2:
                raise ScriptError("set_property -dict: a name without a value")
            pairs = list(zip(words[::2], words[1::2], strict=True))
            target = arguments[1]
        else:
            if len(arguments) != 3:
                raise ScriptError("set_property: a name, a value and an object")
            pairs, target = [(arguments[0], arguments[1])], arguments[2]
        for name, value in pairs:
            if target.startswith("run:"):
                self._set_of_run(self._runs[target[4:]], name, value)
            else:
                self._set_one(name, value, target)

    def _set_one(self, name: str, value: str, target: str) -> None:
        if self.design is not None and target.startswith("/"):
            self._set_config(self.design.cells[target[1:]], name, value)
        elif target == "sources_1" and name == "top":
            if not any(
                re.search(rf"\bmodule\s+{value}\b", path.read_text()) for path in self._added
            ):
                raise ScriptError(f"no module {value}")
            self._project["top"] = value
        elif target == "project" and name == "ip_repo_paths":
            if not (Path(value) / "component.xml").is_file():
                raise ScriptError(f"no packaged IP in {value}")
            self._repository = value
        elif target == "project" and name == "board_part":
            if value not in catalog()["boards"]:
                raise ScriptError(f"no board part {value}")
            self._project["board_part"] = value
        elif target == "core:tilewright" and name in {"name", "version", "display_name"}:
            self._project[name] = value
        elif target.endswith(".bd") and name == "synth_checkpoint_mode":
            if value not in {"None", "Singular", "Hierarchical"}:
                raise ScriptError(f"synth_checkpoint_mode cannot be {value}")
            self._steps.append("global")
        else:
            raise ScriptError(f"no property {name} of {target or 'nothing'}")

    def _set_of_run(self, run: dict[str, str], name: str, value: str) -> None:
        if value not in _RUN_PROPERTIES.get(name, ()):
            raise ScriptError(f"{name} of a run cannot be {value}")
        run[name] = value

    def _set_config(self, cell: Cell, name: str, value: str) -> None:
        key = name.removeprefix("CONFIG.")
        rule = cell.ip.get("properties", {}).get(key)
        if rule is None or key == name:
            raise ScriptError(f"no property {name} of {cell.vlnv}")
        if "allowed" in rule and value not in map(str, rule["allowed"]):
            raise ScriptError(f"{name} cannot be {value}")
        if "range" in rule:
            low, high = rule["range"]
            if not re.fullmatch(r"[\d.]+", value) or not low <= float(value) <= high:
                raise ScriptError(f"{name} must be from {low} to {high}, not {value}")
        cell.values[key] = value

    def _get_property(self, options, arguments):
        name, target = arguments
        kind, _, what = target.partition(":")
        if kind in {"timing", "run"}:
            known = (
                self._runs[what]
                if kind == "run"
                else {
                    "SLACK": f"{self.slack[what]:.3f}",
                    "STARTPOINT_PIN": "system_i/accelerator/inst/core/u_gemm/a_q_reg[0]/C",
                    "ENDPOINT_PIN": "system_i/accelerator/inst/core/u_gemm/b_q_reg[0]/D",
                    "LOGIC_LEVELS": "9",
                }
            )
            if name in known:
                return known[name]
        elif kind == "interface" and self.core is not None:
            interface = self.core.interfaces[what]
            if name == "abstraction_type_vlnv":
                return f"xilinx.com:{interface.library}:{interface.kind}_rtl:1.0"
            if name == "interface_mode":
                if interface.kind == "aximm":
                    return core_interface(self.core, what).mode
                (signal,) = interface.signals.values()
                return {"input": "slave", "output": "master"}[signal[1]]
        elif target in catalog()["boards"] and name in catalog()["boards"][target]:
            return str(catalog()["boards"][target][name])
        elif self.design is not None and name == "CONFIG.FREQ_HZ" and target.startswith("/"):
            return str(self._clock_hz(target[1:]))
        raise ScriptError(f"no property {name} of {target or 'nothing'}")

    def _clock_hz(self, pin: str) -> int:
        """The nearest clock that whole divisors of the PLL make."""
        design = self._need_design()
        if not design.validated:
            raise ScriptError("FREQ_HZ is known after validate_bd_design")
        if design.pins()[pin].kind != "clock":
            raise ScriptError(f"no property CONFIG.FREQ_HZ of {pin}")
        cell = design.cells[pin.split("/", 1)[0]]
        wanted = float(cell.values[cell.ip["clock_property"]])
        ways = range(1, 64) if cell.ip["divisors"] == 2 else (1,)
        made = [cell.ip["pll_mhz"] / one / other for one in range(1, 64) for other in ways]
        return round(1e6 * min(made, key=lambda mhz: abs(mhz - wanted)))

    # -- boards, catalogue, packager --------------------------------------------------------

    def _get_board_parts(self, options, arguments):
        names = list(catalog()["boards"]) if self.boards else []
        patterns = [re.compile(re.escape(a).replace(r"\*", ".*")) for a in arguments]
        return " ".join(n for n in names if any(p.fullmatch(n) for p in patterns))

    def _update_ip_catalog(self, options, arguments):
        self._need_project()
        self._catalogued = True

    def _ipx_package_project(self, options, arguments):
        for needed in ("root_dir", "vendor", "library", "taxonomy"):
            if needed not in options:
                raise ScriptError(f"ipx::package_project: -{needed} is missing")
        if "top" not in self._project:
            raise ScriptError("the project has no top")
        core = read_core(self._added, self._project["top"])
        check_axi(core, catalog()["axi"], catalog()["interface_parameters"])
        self.core = core
        self._project |= {"vendor": options["vendor"], "library": options["library"]}
        root = self._path(options["root_dir"])
        root.mkdir(parents=True, exist_ok=True)
        self._root = root

    def _of(self, options, kind):
        if not options.get("of_objects", "").startswith(kind):
            raise ScriptError(f"-of_objects must be a {kind}, not {options.get('of_objects')}")

    def _ipx_current_core(self, options, arguments):
        if self.core is None:
            raise ScriptError("no core is open")
        return "core:tilewright"

    def _ipx_get_bus_interfaces(self, options, arguments):
        self._of(options, "core:")
        return f"interface:{arguments[0]}" if arguments[0] in self.core.interfaces else ""

    def _ipx_get_memory_maps(self, options, arguments):
        self._of(options, "core:")
        found = self.core.interfaces.get(arguments[0])
        slave = found is not None and core_interface(self.core, arguments[0]).mode == "slave"
        return f"map:{arguments[0]}" if slave else ""

    def _ipx_get_address_blocks(self, options, arguments):
        self._of(options, "map:")
        return "block:reg0" if arguments == ["reg0"] else ""

    def _need_core(self, options, arguments):
        if arguments and arguments[0] != "core:tilewright":
            raise ScriptError(f"no core {arguments[0]}")

    _ipx_create_xgui_files = _ipx_update_checksums = _ipx_check_integrity = _need_core

    def _ipx_save_core(self, options, arguments):
        self._need_core(options, arguments)
        (self._root / "component.xml").write_text("<stub/>", encoding="utf-8")
        self.vlnv = ":".join(self._project[k] for k in ("vendor", "library", "name", "version"))

    # -- block design -----------------------------------------------------------------------

    def _need_design(self) -> Design:
        if self.design is None:
            raise ScriptError("no block design is open")
        return self.design

    def _create_bd_design(self, options, arguments):
        self._need_project()
        if not self._path(options.get("dir", ".")).is_dir():
            raise ScriptError(f"no folder {options['dir']}")
        self.design = Design(arguments[0])
        self._folder = self._path(self.outputs) / arguments[0]
        return arguments[0]

    def _create_bd_cell(self, options, arguments):
        design, name = self._need_design(), arguments[0]
        if options.get("type") != "ip" or "vlnv" not in options:
            raise ScriptError("create_bd_cell: -type ip -vlnv")
        if name in design.cells:
            raise ScriptError(f"cell {name} exists")
        vlnv, core, ip = options["vlnv"], None, {}
        if self.core is not None and vlnv == self.vlnv:
            if not self._repository or not self._catalogued:
                raise ScriptError("the IP catalogue does not have the core yet")
            core = self.core
        else:
            known = [k for k in catalog() if k == vlnv or k.startswith(f"{vlnv}:")]
            if len(known) != 1:
                raise ScriptError(f"no IP {vlnv}")
            vlnv, ip = known[0], catalog()[known[0]]
        values = {key: str(rule["default"]) for key, rule in ip.get("properties", {}).items()}
        design.cells[name] = Cell(name=name, vlnv=vlnv, ip=ip, values=values, core=core)
        return f"/{name}"

    def _objects(self, kind, options, arguments):
        found = [n for a in arguments for n in self._need_design().objects(kind, a)]
        return " ".join(f"/{name}" for name in found)

    _get_bd_cells = functools.partialmethod(_objects, "cells")
    _get_bd_pins = functools.partialmethod(_objects, "pins")
    _get_bd_intf_pins = functools.partialmethod(_objects, "intf_pins")
    _get_bd_addr_spaces = functools.partialmethod(_objects, "addr_spaces")
    _get_bd_addr_segs = functools.partialmethod(_objects, "addr_segs")

    def _connect_bd_net(self, options, arguments):
        names = [w.removeprefix("/") for a in arguments for w in split_list(a)]
        if len(names) < 2:
            raise ScriptError("connect_bd_net: fewer than two pins")
        self._need_design().connect(names)

    def _connect_bd_intf_net(self, options, arguments):
        self._need_design().link(*(name.removeprefix("/") for name in arguments))

    def _apply_bd_automation(self, options, arguments):
        cell = self._need_design().cells[arguments[0].removeprefix("/")]
        if options.get("rule") != cell.ip.get("rule"):
            raise ScriptError(f"no rule {options.get('rule')} for {cell.vlnv}")
        words = split_list(options.get("config", ""))
        config = dict(zip(words[::2], words[1::2], strict=True))
        for key, value in config.items():
            if value not in cell.ip["automation"].get(key, ()):
                raise ScriptError(f"no automation {key} {value}")
        if config.get("apply_board_preset") == "1" and "board_part" not in self._project:
            raise ScriptError("a preset needs board_part")
        if config.get("apply_board_preset") == "1":
            cell.values |= catalog()["presets"].get(self._project["board_part"], {})
        names = [n.strip() for n in config.get("make_external", "").split(",") if n.strip()]
        self._need_design().external |= {f"{cell.name}/{name}" for name in names}

    def _assign_bd_address(self, options, arguments):
        for needed in ("target_address_space", "offset", "range"):
            if needed not in options:
                raise ScriptError(f"assign_bd_address: -{needed} is missing")
        self._need_design().assign(
            options["target_address_space"].removeprefix("/"),
            arguments[0].removeprefix("/"),
            int(options["offset"], 0),
            int(options["range"], 0),
        )

    def _exclude_bd_addr_seg(self, options, arguments):
        design = self._need_design()
        space, segment = (
            name.removeprefix("/") for name in (options["target_address_space"], arguments[0])
        )
        if segment not in design.reachable(space):
            raise ScriptError(f"{space} does not reach {segment}")
        design.assigned.pop((space, segment), None)
        design.excluded.add((space, segment))

    def _validate_bd_design(self, options, arguments):
        self._need_design().validate()

    def _save_bd_design(self, options, arguments):
        design = self._need_design()
        if not design.validated:
            raise ScriptError("the block design is not validated")
        design.saved = True

    def _generate_target(self, options, arguments):
        if arguments[0] != "all" or not arguments[1].endswith(".bd"):
            raise ScriptError(f"no target {' '.join(arguments)}")
        if "global" not in self._steps and not self._runs:
            raise ScriptError("cells would be synthesised out of context: no one starts their runs")
        handoff = self._folder / "hw_handoff"
        handoff.mkdir(parents=True)
        (handoff / f"{self._need_design().name}.hwh").write_text("<stub/>", encoding="utf-8")
        # SmartConnect is a block design of its own, with a file of its own.
        (self._folder / "ip").mkdir()
        (self._folder / "ip" / "bd_1a2b.hwh").write_text("<inner/>", encoding="utf-8")
        self._steps.append("generated")

    def _make_wrapper(self, options, arguments):
        if "top" not in options or "generated" not in self._steps:
            raise ScriptError("make_wrapper: -top, after generate_target")
        name = f"{self._need_design().name}_wrapper"
        path = self._folder / "hdl" / f"{name}.v"
        path.parent.mkdir()
        path.write_text(f"module {name}; endmodule\n", encoding="utf-8")
        return str(path)

    # -- runs of a project on disk ----------------------------------------------------------

    def _get_runs(self, options, arguments):
        return " ".join(f"run:{name}" for name in arguments if name in self._runs)

    def _launch_runs(self, options, arguments):
        (name,) = arguments
        if name not in self._runs or not options.get("jobs", "").isdigit():
            raise ScriptError(f"launch_runs {name}: no such run, or no jobs")
        if name == "synth_1":
            if self._project.get("top") != f"{self._need_design().name}_wrapper":
                raise ScriptError("the top of the project is not the wrapper")
            if not any(path.suffix == ".xdc" for path in self._read):
                raise ScriptError("no constraints were added")
        elif "synth" not in self._steps:
            raise ScriptError("launch_runs impl_1 before synth_1 has ended")
        self._runs[name] |= {"to_step": options.get("to_step", ""), "launched": "1"}

    def _wait_on_run(self, options, arguments):
        (name,) = arguments
        run = self._runs.get(name, {})
        if not run.get("launched"):
            raise ScriptError(f"wait_on_run: {name} was not launched")
        failed = name == self.failing_run
        run |= {
            "PROGRESS": "40%" if failed else "100%",
            "STATUS": f"{name} ERROR" if failed else f"{name} Complete!",
            "DIRECTORY": str(self._disk / name),
        }
        if failed:
            return
        self._steps += ["synth"] if name == "synth_1" else ["opt", "place", "phys_opt"]
        if run["to_step"] == "write_bitstream":
            if missing := sorted(set(_RUN_PROPERTIES) - set(run)):
                raise ScriptError(f"of the strategy is not set: {', '.join(missing)}")
            (self._disk / name).mkdir(parents=True)
            bits = self._disk / name / f"{self._project['top']}.bit"
            bits.write_bytes(b"stub bitstream")

    def _open_run(self, options, arguments):
        if arguments != ["impl_1"] or self._runs.get("impl_1", {}).get("PROGRESS") != "100%":
            raise ScriptError(f"open_run: {arguments[0]} has not ended")
        self._steps.append("route")

    # -- implementation ---------------------------------------------------------------------

    def _synth_design(self, options, arguments):
        top = options.get("top", "")
        if not any(p.stem == top for p in self._read):
            raise ScriptError(f"no top {top}")
        if not any(p.suffix == ".xdc" for p in self._read):
            raise ScriptError("no constraints were read")
        if options.get("part") != self._project["part"]:
            raise ScriptError(f"part {options.get('part')} is not that of the project")
        self._steps.append("synth")

    def _after(self, needed, step, options, arguments):
        if needed not in self._steps:
            raise ScriptError(f"{step} before {needed}")
        self._steps.append(step)

    _opt_design = functools.partialmethod(_after, "synth", "opt")
    _place_design = functools.partialmethod(_after, "opt", "place")
    _phys_opt_design = functools.partialmethod(_after, "place", "phys_opt")
    _route_design = functools.partialmethod(_after, "place", "route")
    _auto = functools.partialmethod(_after, "route", "report")
    _report_drc = _report_timing_summary = _write_checkpoint = _auto

    def _write_file(self, options):
        if "file" in options:
            path = self._path(options["file"])
            if not path.parent.is_dir():
                raise ScriptError(f"no folder {path.parent}")
            path.write_text("stub\n", encoding="utf-8")

    def _report_timing(self, options, arguments):
        if not options.get("of_objects", "").startswith("timing:"):
            raise ScriptError("report_timing: of which path?")
        self._write_file(options)

    def _report_utilization(self, options, arguments):
        self._after("route", "report", options, arguments)
        self._write_file(options)
        if "return_string" not in options:
            return ""
        seven = self._project["part"].startswith("xc7")
        rows = [
            ("Slice LUTs" if seven else "CLB LUTs*", 20123),
            ("  LUT as Logic", 18000),
            ("Slice Registers" if seven else "CLB Registers", 15001),
            ("Block RAM Tile", 130.5),
            ("  RAMB18", 3),
            ("DSPs", 210),
            ("  DSP48E1 only", 210),
        ]
        return "\n".join(f"| {n:<26} | {used:>6} |     0 |  10000 |  1.00 |" for n, used in rows)

    def _get_timing_paths(self, options, arguments):
        self._after("route", "report", options, arguments)
        kinds = {"setup", "hold"} & set(options)
        if len(kinds) != 1:
            raise ScriptError("get_timing_paths: setup or hold")
        return f"timing:{kinds.pop()}"

    def _write_bitstream(self, options, arguments):
        if "route" not in self._steps:
            raise ScriptError("write_bitstream before route")
        if self._runs:
            raise ScriptError("write_bitstream: a run has written it")
        self._path(arguments[0]).write_bytes(b"stub bitstream")
