# SPDX-License-Identifier: Apache-2.0
# Every target is one call of a tool; `make help` lists them. Set-up is automatic.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
TW := $(BIN)/tilewright
# To compile the tests anew takes as long as to import them.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest

MODEL ?= resnet18
BOARD ?= pynq-z2
LAYER ?= C8
HW ?= pynq-16x16
MEMORY ?= board
WAVES ?=
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  variables: MODEL=$(MODEL) BOARD=$(BOARD) LAYER=$(LAYER) HW=$(HW) MEMORY=$(MEMORY) WAVES=1 TORCH_INDEX=$(TORCH_INDEX) ARGS="..."'

setup: $(DEV_READY) ## create the environment with everything that tests and lint need

# The locks are complete: nothing is resolved, and nothing is taken whose SHA-256 they do not hold.
LOCKS := requirements
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
LOCKED := $(PIP) --no-deps --require-hashes
# A build would take the newest packages that its backend names, which no lock holds.
WHEELS := $(LOCKED) --only-binary :all:

$(RUN_READY): pyproject.toml $(LOCKS)/run.txt $(LOCKS)/bare-run.txt
	@test -n "$(PYTHON)" || { echo 'error: Python 3.11, 3.12 or 3.13 is needed; set PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
		echo 'error: PYTHON=$(PYTHON) must be Python 3.11, 3.12 or 3.13; leave it out, or set PYTHON=/path/to/python3.12' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing the run-time packages into $(VENV): 0.3 GB, half a minute to two'
	@$(WHEELS) -r $(LOCKS)/run.txt
	@$(WHEELS) --ignore-requires-python -r $(LOCKS)/bare-run.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# TORCH_INDEX: an index, or a folder, that holds PyTorch without CUDA. By default what pip is set up with.
TORCH_INDEX ?=
TORCH_FROM := $(if $(TORCH_INDEX),$(if $(wildcard $(TORCH_INDEX)),--no-index --find-links,--index-url) $(TORCH_INDEX))

$(DEV_READY): $(RUN_READY) $(LOCKS)/dev.txt $(LOCKS)/bare-dev.txt $(LOCKS)/torch.txt $(LOCKS)/torch-cpu.txt
	@echo 'installing the development packages into $(VENV): 3 GB, two to six minutes'
	@$(WHEELS) $(TORCH_FROM) -r $(LOCKS)/torch-cpu.txt $(if $(TORCH_INDEX),,2>$(VENV)/torch.log || { \
		! grep -A 9 'DO NOT MATCH' $(VENV)/torch.log >&2 || exit 1; \
		echo 'PyTorch comes with CUDA from this index: 4 GB more. Ctrl-C and TORCH_INDEX=<an index without CUDA> avoid it.'; \
		$(WHEELS) -r $(LOCKS)/torch.txt; })
	@$(LOCKED) --no-build-isolation -r $(LOCKS)/dev.txt
	@$(LOCKED) --no-build-isolation --ignore-requires-python -r $(LOCKS)/bare-dev.txt
	@touch $@

DOCS_READY := $(VENV)/.docs-ready
$(DOCS_READY): $(RUN_READY) $(LOCKS)/docs.txt
	@$(LOCKED) --no-build-isolation -r $(LOCKS)/docs.txt
	@touch $@

# NO_MKDOCS_2_WARNING: Material tells of a release of MkDocs that is not the locked one.
docs: $(DOCS_READY) ## build the site into build/site (index.html opens without a server)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict $(ARGS)
	@echo 'site: build/site/index.html'

doctor: $(RUN_READY) ## check the tools and say how to get what is missing
	@$(TW) doctor

tune: $(RUN_READY) ## co-tune MODEL on BOARD against the RTL, print and save the result
	@$(TW) tune $(MODEL) --board $(BOARD) $(ARGS)

sim: $(RUN_READY) ## run LAYER on the RTL of HW and print its counters (WAVES=1 writes an FST)
	@$(TW) sim $(LAYER) --hw $(HW) --memory $(MEMORY) $(if $(WAVES),--waves build/$(LAYER)-$(HW).fst) $(ARGS)

smoke: $(RUN_READY) ## two minutes: a layer bit-exact on the RTL, a small tune and its report
	@$(TW) sim C10 --hw tiny-4x4
	@rm -rf build/smoke
	@$(TW) tune resnet18 --hw tiny-4x4 --layers C10 --budget 8 --name smoke --runs build/smoke
	@test -s build/smoke/smoke.html && echo 'smoke: ok'

test: $(DEV_READY) ## run the tests (a fresh random sample of the slow proofs included)
	@$(PYTEST) -n 2 --dist worksteal -m 'not slow' $(ARGS)

test-all: $(DEV_READY) ## run every test, the slow ones too
	@$(PYTEST) -n 2 --dist worksteal $(ARGS)

cocotb: $(DEV_READY) ## run the cocotb regressions of every unit and the top over the full grid
	@$(PYTEST) -n 2 --dist worksteal tests/rtl $(ARGS)

synth: $(DEV_READY) ## synthesise HW with Yosys and print LUT, FF, BRAM, DSP against BOARD
	@$(TW) synth $(HW) --board $(BOARD) $(ARGS)

netlist: $(DEV_READY) ## simulate the netlist of HW, compare with the reference (minutes; ARGS="--stage packed": less)
	@$(TW) verify netlist $(HW) $(ARGS)

bitstream: $(RUN_READY) ## build HW for BOARD: Vivado; BOARD=ulx3s: Yosys and nextpnr (ARGS=--dry-run: write the folder alone)
	@$(TW) bitstream $(HW) --board $(BOARD) $(ARGS)

rehearse: $(DEV_READY) ## play the first run of a board without one, from bitstream to tuning (minutes)
	@PYTHONPATH=tests $(BIN)/python -m rehearsal $(ARGS)

formal: $(DEV_READY) ## prove properties of the RTL units with SymbiYosys
	@$(TW) verify formal $(ARGS)

cxxrtl: $(DEV_READY) ## compare a second simulator (Yosys CXXRTL) with Verilator and the reference
	@$(PYTEST) tests/contract/test_cxxrtl_device.py $(ARGS)

coverage: $(DEV_READY) ## measure line, branch, toggle and functional coverage of the RTL
	@$(TW) verify coverage $(ARGS)

bench: $(DEV_READY) ## speed of every fidelity, lowering and execution, side by side (minutes)
	@$(TW) bench simspeed --json build/bench/simspeed.json $(ARGS)
	@$(TW) bench lowering --json build/bench/lowering.json $(ARGS)

bench-tuner: $(DEV_READY) ## the default tuner against the certified optimum, layer by layer (minutes)
	@$(TW) bench default-tuner --json build/bench/default_tuner.json $(ARGS)

STUDY = build/study
SEEDS = 10
BUDGET = 128
study: $(DEV_READY) ## every tuner on layers with certified optima: tables, runs, page (an hour on two idle cores, goes on where it was stopped; SEEDS=1 BUDGET=16 ARGS=--quick: minutes)
	@$(TW) bench tables --output $(STUDY)/certified-tables.npz --folder $(STUDY) --json $(STUDY)/tables.json $(ARGS)
	@$(TW) bench tuners --tables $(STUDY)/certified-tables.npz --sets fresh --seeds $(SEEDS) --budget $(BUDGET) --folder $(STUDY) --json $(STUDY)/fresh.json
	@$(TW) bench tuners --tables $(STUDY)/certified-tables.npz --sets known --hard --seeds 1 --budget $(BUDGET) --folder $(STUDY) --json $(STUDY)/known.json
	@$(TW) bench intervals --json $(STUDY)/intervals.json $(ARGS)
	@cp docs/results/tuners-study.md $(STUDY)/tuners-study.md
	@$(TW) bench study-page $(STUDY)/fresh.json $(STUDY)/known.json $(STUDY)/intervals.json --page $(STUDY)/tuners-study.md
	@echo "$(STUDY)/tuners-study.md has the tables of this run in the published page; compare the two"

bench-arena: $(DEV_READY) ## every tuner on every network by table replay (hours; ARGS=--quick: minutes)
	@$(TW) bench tuners --json build/bench/tuners.json --html build/bench/tuners.html $(ARGS)

bench-alloc: $(DEV_READY) ## every allocator on every network (hours; ARGS=--quick: minutes)
	@$(TW) bench allocate --json build/bench/allocate.json --html build/bench/allocate.html $(ARGS)

bench-mapping: $(DEV_READY) ## every mapper against certified optima (hours; ARGS=--quick: minutes)
	@$(TW) bench mapping --json build/bench/mapping.json --html build/bench/mapping.html $(ARGS)

bench-multicore: $(DEV_READY) ## every mapper of groups on many cores (hours; ARGS=--quick: minutes)
	@$(TW) bench multicore --recorded tests/unit/tuner/multicore/magma --json build/bench/multicore.json --html build/bench/multicore.html $(ARGS)

bench-networks: $(DEV_READY) ## whole networks from PyTorch to bit-exact int8 on the RTL (minutes; ARGS=--quick)
	@$(TW) bench networks --json build/bench/networks.json $(ARGS)

bench-accuracy: $(DEV_READY) ## int8 accuracy of trained networks on real images (minutes)
	@$(TW) bench accuracy --json build/bench/accuracy.json $(ARGS)

timing: $(DEV_READY) ## estimate which clock HW may reach, and which paths limit it (nothing is routed)
	@$(TW) timing $(HW) $(ARGS)

pnr: $(DEV_READY) ## place and route HW on ECP5 with nextpnr and print clock and slowest path
	@$(TW) pnr $(HW) $(ARGS)

mutate: $(DEV_READY) ## seed faults in copies of the RTL and report the share that the tests find
	@$(TW) verify mutate $(ARGS)

pinned-cycles: $(DEV_READY) ## record the pinned cycle counts after timing was changed on purpose
	@$(BIN)/python tests/mutation/pinned_cycles.py --write

lint: $(DEV_READY) ## ruff, mypy, clang-format, generated files, lines of each room, Verilator lint of every configuration
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >/dev/null || { $(BIN)/lint-imports --no-cache; exit 1; }
	@$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'sim/harness/*.cpp' 'sim/harness/*.h' 'sim/twin/*.cpp' 'sim/twin/*.h' 'host/*.cpp' 'host/*.h' 'tuner/*.cpp' 'tuner/*.h')
	@$(BIN)/python -m tilewright.host.machine.codegen --check
	@$(BIN)/python -m tilewright.host.lowering.native.records --check
	@$(BIN)/python docs/site/board_guides.py --check
	@$(BIN)/python $(LOCKS)/lock.py --check
	@$(BIN)/python tests/house.py
	@$(TW) verify lint

format: $(DEV_READY) ## reformat Python and C++
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $$(git ls-files 'sim/harness/*.cpp' 'sim/harness/*.h' 'sim/twin/*.cpp' 'sim/twin/*.h' 'host/*.cpp' 'host/*.h' 'tuner/*.cpp' 'tuner/*.h')

generate: $(RUN_READY) ## regenerate the SystemVerilog package, C++ header, reference tables and guides
	@$(BIN)/python -m tilewright.host.machine.codegen --write
	@$(BIN)/python -m tilewright.host.lowering.native.records --write
	@$(BIN)/python docs/site/board_guides.py --write

pictures: $(RUN_READY) ## draw the pictures of the documents anew from their data
	@$(BIN)/python docs/pictures/draw.py --write

lock: ## resolve the locks of requirements/ anew (ARGS=--upgrade takes the newest versions)
	@test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && \
		$(VENV)-lock/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r $(LOCKS)/lock-tool.txt; }
	@$(VENV)-lock/bin/python $(LOCKS)/lock.py --uv $(VENV)-lock/bin/uv $(ARGS)

release: ## build wheel, source distribution and software bill of materials (CycloneDX) into dist/
	@test -x $(VENV)-release/bin/cyclonedx-py || { $(PYTHON) -m venv $(VENV)-release && \
		$(VENV)-release/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r $(LOCKS)/release.txt; }
	@rm -rf dist
	@$(VENV)-release/bin/python -m build --no-isolation --outdir dist . > build-release.log 2>&1 || { cat build-release.log; exit 1; }
	@rm build-release.log
	@cat $(LOCKS)/run.txt $(LOCKS)/bare-run.txt | $(VENV)-release/bin/python -W ignore::UserWarning -m cyclonedx_py \
		requirements --pyproject pyproject.toml --output-reproducible -o dist/tilewright-run.cdx.json -
	@ls -l dist

clean: ## remove builds and caches of this checkout (not runs/, not the environment)
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help setup docs doctor tune sim smoke test test-all cocotb synth formal cxxrtl coverage bench bench-tuner study bench-arena bench-alloc bench-mapping bench-multicore bench-networks bench-accuracy timing pnr bitstream rehearse mutate pinned-cycles lint format generate pictures lock release clean
