# Runnel's commands. `make help` lists them. Every target first sees to it that .venv is there and current,
# so a fresh clone needs no other step. Nothing is needed but Python >= 3.11; a C++ compiler makes it faster.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# What an install depends on: the package's description and the sources that are compiled.
SOURCES := pyproject.toml setup.py $(wildcard native/* src/runnel/matching/*.pyx src/runnel/matching/*.pxd)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-external test-mutations test-bounds test-long fuzz check diagrams dist clean

# Two processes; how tests are spread over them is in tests/conftest.py.
PYTEST := $(BIN)/pytest -n 2
# A long campaign: so many seeds, from this one on.
SEEDS ?= 5000
FIRST ?= 10001
# Instances of the planner's lower bound, with a packing each, and small networks that brute force plans too.
INSTANCES ?= 5000
NETWORKS ?= 1000
# A long fuzz: so many frames that brokers take, half of them in memory and half over sockets.
FRAMES ?= 1000000

help:           ## this list
	@grep -hE "^[a-z%-]+:.*##" $(MAKEFILE_LIST) | sed -E "s/^([a-z%-]+):[^#]*## */  make \1\t/" | expand -t 22

$(STAMP): $(SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Runnel needs Python 3.11 or newer: make PYTHON=python3.11 setup (after make clean)"; exit 1; }
	@echo "installing into $(VENV); the largest part is Spark, some 460 MB ..."
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(STAMP) ## build .venv in this checkout and say which engine is in use
	@$(BIN)/runnel --version

demo: setup     ## seven real brokers under load: a link cut, a subscriber moved, fewer brokers planned by Spark and applied
	@$(BIN)/runnel demo

test-fast: setup ## units, properties with fewer examples, documents
	$(PYTEST) -m "not slow" --hypothesis-profile=fast tests/unit tests/property tests/docs

test: setup     ## all tests but for the three below
	$(PYTEST) -m "not external" --ignore tests/simulation/test_mutations.py tests

test-external: setup ## the same checks on real data: make test-external RUNNEL_DATA=FOLDER
	$(PYTEST) -m external tests/papers

fuzz: setup     ## typed messages from strangers, in memory and over sockets: make fuzz FRAMES=1000000
	RUNNEL_FUZZ_FRAMES=$(FRAMES) $(PYTEST) tests/property/test_fuzz_peers.py tests/process/test_fuzz_sockets.py

test-mutations: setup ## plant bugs by hand and see that the simulator catches each
	$(PYTEST) tests/simulation/test_mutations.py

test-bounds: setup ## the planner against exact solvers: make test-bounds INSTANCES=5000 NETWORKS=1000
	RUNNEL_BOUND_INSTANCES=$(INSTANCES) RUNNEL_SMALL_PLANS=$(NETWORKS) $(PYTEST) tests/property/test_small_plans.py \
	  tests/property/test_planning.py::test_no_packing_has_fewer_brokers_than_the_bound --hypothesis-show-statistics

test-long: setup ## fresh seeds for the simulator: make test-long SEEDS=5000 FIRST=10001
	$(BIN)/runnel simulate --seeds $(SEEDS) --first $(FIRST) --jobs 2

check: setup    ## ruff, mypy --strict, import-linter, documentation examples
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=src:tests $(BIN)/mypy --explicit-package-bases tests
	$(BIN)/lint-imports
	$(BIN)/pytest --quiet --doctest-modules src tests/docs

diagrams: setup ## renew the diagrams, tables and lists of calls in docs/ that are made from the code
	@PYTHONPATH=tests $(BIN)/python -m docs.generated

dist: setup     ## build a wheel and an sdist in dist/
	@$(BIN)/python -m build
	@ls -l dist

bench-%: setup  ## run bench/NAME.py (make bench-matching); the last line is JSON
	@$(BIN)/python bench/$*.py $(ARGS)

clean:          ## remove .venv and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
