# Two commands start everything: `make demo` and `make test`.
# TORCH chooses another torch, for example: make env TORCH="torch==2.11.0"
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH ?=
STAMP := $(VENV)/.installed
PEERS_VENV ?= .venv-peers

.PHONY: env peers-env demo test test-all lint types benchmarks race family figures clean

env: $(STAMP)

$(STAMP): pyproject.toml studies/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(strip $(TORCH)),)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]" -e "./studies[test]"
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[dev]" -e "./studies[test]"
endif
	@touch $@

# What bayesvm_studies.benchmarks.race races against. TensorFlow wants its own versions of numpy and others, so GPflow
# lives apart; GPyTorch shares our torch.
peers-env: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "gpytorch==1.15.2"
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "gpflow==2.11" \
		"tensorflow-cpu==2.21" "tf-keras==2.21" "tensorflow-probability==0.25" "setuptools<81" scikit-learn

demo: env
	$(BIN)/python examples/digits.py demo-output
	@echo
	$(BIN)/bayesvm fit --model demo-output/penguins.skops --report demo-output/penguins.html
	@echo "Open demo-output/penguins.html in a browser."

CODE := conftest.py src tests studies examples docs

lint: env
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: env
	$(BIN)/mypy

# One thread per worker: the tests' matrices are small. Neighbours stay on one worker and share fixtures.
test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-all: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow"

benchmarks: env
	$(BIN)/python -m bayesvm_studies.benchmarks.limits --json results/benchmarks/limits.json
	$(BIN)/python -m bayesvm_studies.benchmarks.startup --json results/benchmarks/startup.json
	$(BIN)/python -m bayesvm_studies.benchmarks.quality --json results/benchmarks/quality.json

race: peers-env
	$(BIN)/python -m bayesvm_studies.benchmarks.race --json results/benchmarks/peers.json

# Every model of the library on ten sets, and SVGPClassifier against GPflow step by step.
family: peers-env
	$(BIN)/python -m bayesvm_studies.benchmarks.family --json results/benchmarks/family.json
	$(BIN)/python -m bayesvm_studies.benchmarks.svgp --json results/benchmarks/svgp.json

figures: env
	$(BIN)/python docs/figures/decision_regions.py
	$(BIN)/python docs/figures/peers.py
	$(BIN)/python docs/figures/report.py
	$(BIN)/python docs/figures/mean_field.py

clean:
	rm -rf $(VENV) $(PEERS_VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache
