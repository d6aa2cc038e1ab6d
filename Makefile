# Each target sets up what it needs: a new machine with Python, pip and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LIGHT  := $(VENV)/.light
READY  := $(VENV)/.ready
BENCH  := $(VENV)/.bench
DOCS   := $(VENV)/.docs
BARE   := $(VENV)/bare
DEMO   ?= demo
FIGURES ?= reproduction
SITE   ?= site/html  # executed pages are beside it, as notebooks
# Each is benchmarks/NAME.py, and `make bench-NAME` runs it; `make bench-engines`, which needs a GPU, too.
MEASURED := imports linalg accuracy ablation choice calibration speed collect nested psa evsi adaptive asynchronous best \
            kronecker many_thetas growth slopes outcome sensitivity overhead splits
WITH_calibration := --design iid
WITH_ablation := --seeds judging --switches all --by-problem
WITH_engines ?= --engine cuda  # or --engine torch --quick, on a machine without a GPU
SPREAD := -n auto --dist loadfile  # one process per core; the tests of a file run in one process

.PHONY: demo reproduce test test-all test-minimal lint docs bench clean
.NOTPARALLEL:  # benchmarks measure time

demo: $(LIGHT)
	$(BIN)/cbq run sir --T 15 --N 40 --seed 0 --out $(DEMO)
	@echo "The report is $(DEMO)/report.html, its figure $(DEMO)/figure.png and its table $(DEMO)/estimate.csv. For other thetas, run"
	@echo "  $(BIN)/cbq predict $(DEMO)/fit.cbq --theta 3.5"

# All experiments of the paper take more than an hour; a run that was stopped resumes.
reproduce: $(READY)
	$(BIN)/cbq reproduce --all --workers 2 --out $(FIGURES)

test: $(READY)
	$(BIN)/python -m pytest $(SPREAD) -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest $(SPREAD)

# An environment of its own, without extras: numpy, scipy and threadpoolctl are enough.
test-minimal:
	$(PYTHON) -m venv --clear $(BARE)
	$(BARE)/bin/python -m pip install --quiet . pytest
	$(BARE)/bin/python -m pytest tests/test_minimal.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Pages are executed; what they printed is kept in .docs-cache as long as neither they nor the library change.
docs: $(DOCS)
	$(BIN)/python -m sphinx -E -W --keep-going -q -j auto -d .docs-cache/doctrees docs $(strip $(SITE))
	@echo "The site is $(strip $(SITE))/index.html."

bench: $(MEASURED:%=bench-%)

bench-%: $(BENCH)
	$(BIN)/python benchmarks/$*.py $(WITH_$*)

# Further calls of some benchmarks.
bench-calibration: bench-calibration-sobol
bench-calibration-sobol: $(BENCH)
	$(BIN)/python benchmarks/calibration.py --design sobol

bench-outcome: bench-outcome-speed
bench-outcome-speed: $(BENCH)
	$(BIN)/python benchmarks/outcome.py --speed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist demo site .docs-cache docs/api reproduction reproduction-quick

# What a user needs: the command line and figures. Other targets add to it.
$(LIGHT): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[cli,plot]"
	@touch $@

$(READY): $(LIGHT)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

$(DOCS): $(LIGHT)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

$(BENCH): $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@
