# `make demo` and `make test` set everything up by themselves; all they need is Python 3.11 or newer and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# Another uv on PATH is used when there is one; else it is installed into a small environment of its own.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
SYNCED := $(VENV)/.synced
# Tests run in so many processes at once, each with a sandbox of its own when it comes to need one; those of a file stay
# together and in their order.
JOBS ?= 2
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# The order within sets of texts is the same in every run too: see tests/fuzzing.py.
unit test: export PYTHONHASHSEED := 0

.PHONY: help setup check test demo unit fuzz clean generate

help:  ## What there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet uv

$(SYNCED): pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	$(UV) sync --locked --quiet --extra sandbox
	@touch $@

setup: $(SYNCED)  ## Python environment and the sandbox's control plane (built once, then cached)
	$(BIN)/tenon sandbox build

check: $(SYNCED)  ## The fast gates: style, types, import rules, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tenon generate --check

unit: $(SYNCED)  ## Tests that need no sandbox
	$(PYTEST) -q --ignore tests/e2e --ignore tests/faults --ignore tests/sandbox --ignore tests/deploy --ignore tests/planning/test_on_api_server.py --ignore tests/apis/verdicts --ignore tests/webhook/test_two_versions.py

test: check setup  ## Everything
	$(PYTEST)

fuzz: $(SYNCED)  ## New inputs at random for the tests by hypothesis; TIMES=20 as many as a test run tries
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q --timeout 0 --fuzz $(or $(TIMES),20)

demo: setup  ## The main job on real parts; KEEP=1 leaves the sandbox running
	$(BIN)/tenon demo $(if $(KEEP),--keep)

generate: $(SYNCED)  ## Write the files that are generated from the models
	$(BIN)/tenon generate

clean:  ## Remove the environment and caches of this checkout
	rm -rf $(VENV) .uv .sandbox .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
