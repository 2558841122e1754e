# `make quickstart` (the main job), `make test` (tests and linters), `make recipes` (the pages of the recipes). All install by themselves.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
BASE_PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
export OMP_NUM_THREADS ?= 2
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: test fuzz recipes lint quickstart tables install clean

# in the order of the files: those of commands, which take minutes, begin, and those of modules fill the end
test: install lint
	@echo "== tests"
	OMP_NUM_THREADS=1 python -m pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 10 -m "not recipes and not fuzz" tests

recipes: install
	@echo "== pages of recipes, at sizes of which nothing can be concluded"
	OMP_NUM_THREADS=1 python -m pytest -q --numprocesses 2 --dist load --maxschedchunk 1 --durations 10 -m recipes tests/cli/test_documented_recipes.py

fuzz: install
	@echo "== damaged files and senseless options"
	OMP_NUM_THREADS=1 python -m pytest -q --durations 5 -m fuzz tests/cli/fuzzing

lint: install
	@echo "== linters"
	ruff check .
	ruff format --check .
	mypy fairseq_groc

# the pages' tables, from the JSON in the repository
tables: install
	python examples/tables.py

quickstart: install
	python examples/quickstart/run.py --workdir quickstart-run

install: $(VENV)/.installed $(VENV)/.wordnet

$(VENV)/.installed: requirements.txt pyproject.toml
	@echo "== installing pinned dependencies into $(VENV) (the first time fairseq is compiled: about 4 minutes)"
	$(BASE_PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=requirements.txt python -m pip install --quiet -r requirements.txt
	python -m pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.wordnet: $(VENV)/.installed
	@echo "== finding or installing WordNet"
	scripts/install_wordnet.sh
	@touch $@

clean:
	rm -rf $(VENV) quickstart-run build dist *.egg-info
