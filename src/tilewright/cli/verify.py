# SPDX-License-Identifier: Apache-2.0
"""`tilewright verify`: the RTL against its rules, its properties, its tests and its netlist."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.common import application, arguments
from tilewright.cli.common.json_output import JsonOption
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import counted

verify_app = typer.Typer(
    cls=application.Group,
    no_args_is_help=True,
    help="Check the RTL: lint, proofs, coverage, seeded faults, netlists.",
)
application.app.add_typer(verify_app, name="verify", rich_help_panel=application.VERIFY)


@verify_app.command("lint")
def lint_rtl(
    random: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Random configurations to read besides the named ones."
        ),
    ] = 2,
    seed: arguments.FreshSeedOption = None,
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Read the RTL of every configuration and system with Verilator and slang: both are silent."""
    del rtl  # its callback has said which sources are read
    import numpy as np

    from tilewright.host.machine.hwconfig import named_configs
    from tilewright.host.machine.system_config import named_systems
    from tilewright.sim.verify.rtl_lint import designs, lint, lint_slang

    seed = arguments.fresh_seed(seed)
    application.say(f"rtl lint, seed {seed}")
    rows = []
    total = len(named_configs()) + random + len(named_systems())
    with progress("lint", total=total, quiet=json is not None) as steps:
        for hw in designs(random, np.random.default_rng(seed)):
            steps.say(hw.name)
            complaints = lint(hw) + lint_slang(hw)
            rows.append({"hw": hw.name, "clean": not complaints, "complaints": complaints})
            application.say(f"rtl {hw.name}: {'FAILED' if complaints else 'clean'}")
            if complaints:
                sys.stderr.write(f"{hw.parameters()}\n{complaints}")
            steps.advance()
    if json is not None:
        json.write(rows, {"seed": seed, "random": random})
    application.require_passed(all(row["clean"] for row in rows))


@verify_app.command("formal")
def prove_units(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Proofs to run; default: all of them."),
    ] = None,
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Prove properties of RTL units with SymbiYosys."""
    del rtl  # its callback has said which sources are read
    from tilewright.sim.verify.formal import named_proofs, prove

    rows = []
    wanted = named_proofs(names or [])
    with progress("SymbiYosys", total=len(wanted), quiet=json is not None) as steps:
        for proof in wanted:
            steps.say(proof.name)
            verdict = prove(proof)
            mark = "ok  " if verdict.holds else "FAIL"
            application.say(
                f"{mark} {proof.name:8} {verdict.seconds:6.1f} s  {verdict.text}; {proof.claims}"
            )
            rows.append(
                {
                    "proof": proof.name,
                    "holds": verdict.holds,
                    "seconds": verdict.seconds,
                    "verdict": verdict.text,
                    "claims": proof.claims,
                }
            )
            steps.advance()
    if json is not None:
        json.write(rows, {"engine": "smtbmc yices"})
    application.require_passed(all(row["holds"] for row in rows))


@verify_app.command("coverage")
def measure_coverage(
    quick: arguments.QuickOption = False,
    seed: arguments.FreshSeedOption = None,
    programs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Random programs per configuration; default: 32, quick: 6."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure line, branch, toggle and functional coverage of the RTL.

    The exit code is 1 when coverage is missing.
    """
    from tilewright.sim.verify import coverage

    seed = arguments.fresh_seed(seed)
    programs = programs or (6 if quick else 32)
    application.say(f"seed {seed}, {counted(programs, 'random program')} per configuration")
    try:
        with progress("build", quiet=json is not None) as steps:
            report = coverage.measure(seed=seed, quick=quick, programs=programs, note=steps.say)
    except TilewrightError as error:
        raise TilewrightError(f"{error} (seed {seed})") from error
    coverage.print_report(report)
    if json is not None:
        json.write(
            coverage.rows_of_files(report),
            coverage.conditions_of(report),
            summary=coverage.summary_of(report),
        )
    problems = report.problems()
    for problem in problems:
        application.print_error(f"{problem} (seed {seed})")
    application.say(f"{report.seconds:.0f} s, {'failed' if problems else 'passed'}")
    application.require_passed(not problems)


@verify_app.command("mutate")
def seed_faults(
    count: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Mutants to test; those that do not elaborate are not counted."
        ),
    ] = 100,
    seed: Annotated[
        int, typer.Option(metavar="SEED", min=0, help="Seed of the draw; 0: a new one.")
    ] = 0,
    module: Annotated[
        str,
        typer.Option(
            metavar="MODULE,...",
            help="Draw from these modules alone, separated by commas: tw_load,tw_rows.",
        ),
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last run.")] = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Worker processes.")] = 1,
    cocotb: Annotated[bool, typer.Option(help="Run the cocotb benches as the last stage.")] = True,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the results.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Seed faults in copies of the RTL; report the share that the tests find (a clone only).

    The exit code is 1 when less than 95 % are found, or a survivor is not explained.
    """
    from tilewright.host.common.clone_parts import clone_part

    mutation = clone_part("tests/mutation/mutate.py", "mutation.mutate")
    try:
        report, passed = mutation.run_mutation(
            output or mutation.OUTPUT,
            count=count,
            seed=seed,
            modules=[name for name in module.split(",") if name],
            resume=resume,
            jobs=jobs,
            cocotb=cocotb,
        )
    except KeyboardInterrupt:
        application.say("every finished mutant is kept: --resume goes on", err=True)
        raise
    if json is not None:
        json.write(
            report["records"],
            report["conditions"],
            summary=report["summary"],
            permanent=report["permanent"],
        )
    application.require_passed(passed)


@verify_app.command("netlist")
def check_netlist(
    hw: arguments.HwArgument,
    family: Annotated[str, typer.Option(metavar="xc7|ecp5", help="Device family.")] = "xc7",
    stage: Annotated[
        str,
        typer.Option(
            metavar="packed|cells",
            help="packed: stop after the DSP slices are packed (xc7); cells: the whole netlist.",
        ),
    ] = "cells",
    programs: Annotated[int, typer.Option(metavar="N", min=1, help="Random programs.")] = 100,
    seed: arguments.FreshSeedOption = None,
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Run random programs on the simulated netlist; each must end as on the reference."""
    del rtl  # its callback has said which sources are read
    from dataclasses import asdict

    import numpy as np

    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.verify import netlist

    seed = arguments.fresh_seed(seed)
    config = load_hwconfig(hw)
    arguments.one_of(family, netlist.FAMILIES, "--family")
    chosen = netlist.Stage(arguments.one_of(stage, [s.value for s in netlist.Stage], "--stage"))
    quiet = json is not None
    with progress(f"{config.name}: synthesis and build of the netlist", quiet=quiet):
        library = netlist.build_netlist(config, family=family, stage=chosen)
    rng = np.random.default_rng(seed)
    with progress("random programs", total=programs, quiet=quiet) as steps:
        found = list(netlist.differences(config, library, rng, programs, done=steps.advance))
    for difference in found:
        application.say(f"program {difference.program}: {difference.text}")
    application.say(
        f"{hw}, {family}, {stage}: {len(found)} of {counted(programs, 'program')} wrong, "
        f"seed {seed}"
    )
    if json is not None:
        json.write(
            [asdict(difference) for difference in found],
            {"hw": config.name, "family": family, "stage": stage, "seed": seed},
            summary={"programs": programs, "wrong": len(found)},
        )
    application.require_passed(not found)
