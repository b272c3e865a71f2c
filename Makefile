# `make demo` and `make test` set up everything that they need. Only git, make and Python 3.11 or newer with venv must be installed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# Uses uv from PATH. If PATH has none, installs it into its own environment in .uv.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
SYNCED := $(VENV)/.synced
# What `tenon playground` and `tenon shadow` need is a quarter of all packages. If all are there, they are not touched.
WORKER_SYNCED := $(if $(wildcard $(SYNCED)),$(SYNCED),$(VENV)/.synced-worker)
# A test run starts hundreds of Python processes. Without byte code each compiles everything again, which costs seconds.
unexport PYTHONDONTWRITEBYTECODE
# The tests of a file run in one process, in order. Tests that need no sandbox mostly compute, and some wait for a server, so
# two cores serve four of them: `JOBS=N`. Tests on a sandbox wait more than they compute, so two fast cores serve seven, each with
# a sandbox of its own that takes about 1.3 GB, and slow or busy ones fewer: tests/sandbox_count.py, `SANDBOXES=N`. A test that ends its process is
# tried in two new ones and then fails; without the limit it would be tried for ever.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder --max-worker-restart 2
JOBS ?= 4
SANDBOXES ?= $(shell $(BIN)/python -m tests.sandbox_count)
# Sets of strings have the same order in every run: see tests/fuzzing.py.
unit test: export PYTHONHASHSEED := 0

# Tests that name what a change forgot: a right, a line of another table, a document. `make check` runs them, because they take seconds.
FORGOTTEN := tests/docs/test_names_in_documents.py tests/simulate/test_settings.py tests/tenon/apis/test_models.py \
	tests/tenon/apis/versions/test_fields.py tests/tenon/disruption/test_blockers.py tests/tenon/kube/test_event_reasons.py \
	tests/tenon/disruption/test_methods.py::test_each_method_is_registered \
	tests/worker/cache/test_adopt.py tests/worker/runtime/test_activity_lanes.py \
	tests/tools/test_generate.py::test_the_values_of_the_chart_have_each_setting_and_gate \
	tests/worker/cache/test_cluster.py::test_n15_501_the_worker_may_read_what_it_caches

CHECKS := check-types check-generated check-layers check-forgotten check-style

.PHONY: help setup check $(CHECKS) test drills demo playground shadow unit fuzz clean generate pictures docs compare-aws image image-test release release-check realpod realpod-e2e postgresql

help:  ## List the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet uv

$(SYNCED): pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@echo "Installing the Python packages of uv.lock ..."
	@$(UV) sync --locked --quiet --extra sandbox --compile-bytecode
	@touch $@

$(VENV)/.synced-worker: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@echo "Installing the Python packages that the worker and its commands need ..."
	@$(UV) sync --locked --quiet --inexact --no-default-groups --extra worker --compile-bytecode
	@touch $@

setup: $(SYNCED)  ## Python environment and the sandbox's control plane (built once, then cached)
	$(BIN)/tenon sandbox build

check: $(SYNCED)  ## Fast checks: style, types, import rules, generated files, names, forgotten parts
	@echo "Checking types, generated files, layers, forgotten parts and style, for about a minute ..."
	+@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=$(shell nproc) $(CHECKS)

check-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.names

check-types:
	$(BIN)/mypy

check-layers:
	$(BIN)/lint-imports

check-generated:
	$(BIN)/python -m tools.generate --check

check-forgotten:
	$(BIN)/pytest -q $(FORGOTTEN)

unit: $(SYNCED)  ## Tests that need no sandbox, server or other process, and nothing that `make setup` builds
	$(PYTEST) -n $(JOBS) -q --unit --ignore tests/deploy

RECORDS := $(CURDIR)/build/test-records
test: check setup  ## All checks and all tests but drills and those of realpod and postgresql
	@rm -rf $(RECORDS)
	@status=0; export TENON_TEST_RECORDS=$(RECORDS); \
	$(PYTEST) -n $(JOBS) --sandbox none || status=1; \
	$(PYTEST) -n $(SANDBOXES) --sandbox only || status=1; \
	exit $$status

drills: setup  ## Kills, power losses, outages and upgrades at each moment of a life: before a release
	$(PYTEST) -n $(SANDBOXES) --sandbox drills

fuzz: $(SYNCED)  ## Run hypothesis tests with new random inputs; TIMES=20 as many inputs as a test run
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q --timeout 0 --fuzz $(or $(TIMES),20)

demo: setup  ## Scale a Deployment up and down on real components; KEEP=1 leaves the sandbox running, TOUR=1 goes on with a tour
	$(BIN)/tenon demo $(if $(KEEP),--keep) $(if $(TOUR),--tour)

playground: $(WORKER_SYNCED)  ## Serve a page on which manifests and prices can be changed, until Ctrl-C: docs/playground.md
	$(BIN)/tenon playground

shadow: $(WORKER_SYNCED)  ## Watch the cluster of the current kubeconfig, which Karpenter runs, and report what Tenon would save; ARGS="--for 30m"
	$(BIN)/tenon shadow $(ARGS)

generate: $(SYNCED)  ## Generate files from the models
	$(BIN)/python -m tools.generate

pictures: $(SYNCED)  ## Walk through Temporal's UI with Chromium and save the pictures of docs/temporal-ui.md
	TENON_PICTURES=docs $(BIN)/pytest -n0 -q tests/e2e/test_temporal_ui.py

docs: $(SYNCED)  ## Build the documents as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

compare-aws: $(SYNCED)  ## Compare rights, instance types, prices and CRDs with a clone of Karpenter's AWS provider: KARPENTER=PATH
	$(BIN)/python -m benchmarks.compare_aws $(KARPENTER)

image: $(SYNCED)  ## Build the image of the current commit in build/image, as root, without a registry
	UV=$(UV) SOURCES=$(SOURCES) $(BIN)/python -m deploy.image build/image

release: $(SYNCED)  ## Build everything that a release of the current commit has in build/release, as root: docs/releasing.md
	UV=$(UV) SOURCES=$(SOURCES) $(BIN)/python -m deploy.release build/release

release-check: release  ## Build the release twice and compare the files
	UV=$(UV) SOURCES=$(SOURCES) $(BIN)/python -m deploy.release --compare build/release

image-test: $(SYNCED)  ## Run that image in a container, as root
	$(BIN)/pytest -q tests/image

realpod: setup image  ## Run that image in real pods on a real kubelet, as root on Debian with cgroup v1
	$(BIN)/pytest -q tests/realpod

realpod-e2e: setup image  ## The end-to-end tests with the worker in a real pod, where realpod runs too
	$(BIN)/pytest -n0 -q --pods tests/e2e

postgresql: setup  ## Tests with Temporal's server on PostgreSQL, which it builds once; and the faults of Temporal on it
	$(BIN)/pytest -n0 -q tests/postgresql
	TENON_SANDBOX_TEMPORAL=postgresql $(BIN)/pytest -n0 -q tests/faults/drills/test_kills.py tests/faults/drills/test_outages.py

clean:  ## Remove the environment, caches and built files of this checkout
	rm -rf $(VENV) .uv build site .sandbox .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
