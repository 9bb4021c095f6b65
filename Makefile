# Two commands start everything: `make demo` and `make test`.
# TORCH chooses another torch, for example: make env TORCH="torch==2.11.0"
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH ?=
STAMP := $(VENV)/.installed

.PHONY: env demo test test-all lint types benchmarks figures clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(strip $(TORCH)),)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[dev]"
endif
	@touch $@

demo: env
	$(BIN)/python examples/digits.py

lint: env
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples

types: env
	$(BIN)/mypy

# One thread per worker: the tests' matrices are small.
test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-all: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "slow or not slow"

benchmarks: env
	$(BIN)/python benchmarks/limits.py --json results/benchmarks/limits.json
	$(BIN)/python benchmarks/quality.py --json results/benchmarks/quality.json

figures: env
	$(BIN)/python docs/figures/decision_regions.py

clean:
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache
