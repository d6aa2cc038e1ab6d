# Each target sets up what it needs: a new machine with Python, pip and make is enough.
PYTHON ?= python3
VENV   ?= .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN    := $(VENV)/$(SCRIPTS)
LIGHT  := $(VENV)/.light
READY  := $(VENV)/.ready
BENCH  := $(VENV)/.bench
DOCS   := $(VENV)/.docs
OTHER  := $(VENV)/other
FRESH  := $(OTHER)/$(SCRIPTS)/python -m
PEERS  := $(VENV)/peers
DEMO   ?= demo
FIGURES ?= reproduction
PUBLISHED ?= published
SITE   ?= site/html  # executed pages are beside it, as notebooks
# Each is benchmarks/NAME.py, and `make bench-NAME` runs it; `make bench-engines`, which needs a GPU, too.
MEASURED := imports linalg accuracy ablation choice calibration speed collect nested psa evsi adaptive asynchronous best \
            kronecker many_thetas growth slopes outcome sensitivity overhead splits
WITH_calibration := --design iid
WITH_ablation := --seeds judging --switches all --by-problem
WITH_engines ?= --engine cuda  # or --engine torch --quick, on a machine without a GPU
TABLES := evppi nested_quadrature zoo capital surrogates  # benchmarks/published/NAME.py
EXTRAS := cli,documents,frame,plot,sklearn,tables
TESTING := pytest pytest-xdist mpmath nbclient ipykernel pyyaml
SPREAD := -n auto --dist loadfile  # one process per core; the tests of a file run in one process

.PHONY: demo reproduce test test-all test-minimal test-oldest test-upstream package lint docs bench published clean
.NOTPARALLEL:  # benchmarks measure time

demo: $(LIGHT)
	$(BIN)/cbq run sir --T 15 --N 40 --seed 0 --out $(DEMO)
	@echo "The report is $(DEMO)/report.html, its figure $(DEMO)/figure.png and its table $(DEMO)/estimate.csv. For other thetas, run"
	@echo "  $(BIN)/cbq predict $(DEMO)/fit.cbq --theta 3.5"

# All experiments of the paper take more than an hour; a run that was stopped resumes.
reproduce: $(READY)
	$(BIN)/cbq reproduce --all --workers 2 --out $(FIGURES)

# Processes have one thread of BLAS each: more threads than cores spin while they wait, which doubles the time.
test test-all test-oldest test-upstream: export OMP_NUM_THREADS := 1

test: $(READY)
	$(BIN)/python -m pytest $(SPREAD) -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest $(SPREAD)

# The next four use an environment of their own. Without extras, numpy, scipy and threadpoolctl are enough.
test-minimal:
	$(PYTHON) -m venv --clear $(OTHER)
	$(FRESH) pip install --quiet . pytest
	$(FRESH) pytest tests/test_minimal.py

# The oldest versions that pyproject.toml allows, of the library and of its extras; run it with the oldest Python.
# Deprecations among them are no concern of cbq; matplotlib of that time needs pyparsing of that time.
test-oldest:
	$(PYTHON) -m venv --clear $(OTHER)
	$(PYTHON) .ci/floors.py > $(OTHER)/floors.txt
	$(FRESH) pip install --quiet --constraint $(OTHER)/floors.txt ".[$(EXTRAS)]" $(TESTING) "pyparsing<3.3"
	$(FRESH) pytest $(SPREAD) -m "not slow" -W ignore::DeprecationWarning

# The newest versions, also those that are not released yet.
test-upstream:
	$(PYTHON) -m venv --clear $(OTHER)
	$(FRESH) pip install --quiet --pre --upgrade ".[$(EXTRAS)]" $(TESTING)
	$(FRESH) pytest $(SPREAD) -m "not slow"

# What is released, checked, and the wheel installed in an empty environment.
package:
	$(PYTHON) -m venv --clear $(OTHER)
	$(FRESH) pip install --quiet build twine
	rm -rf dist
	$(FRESH) build --outdir dist
	$(FRESH) twine check --strict dist/*
	$(PYTHON) -m venv --clear $(OTHER)
	$(FRESH) pip install --quiet "$$(echo dist/*.whl)[cli]"
	cd dist && ../$(OTHER)/$(SCRIPTS)/cbq run sir

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

# The tables of others beside ours. A finished row is kept in PUBLISHED and is not run again. `published-NAME` runs one.
published: $(TABLES:%=published-%)
	$(PEERS)/$(SCRIPTS)/python benchmarks/published/page.py --rows $(PUBLISHED)

published-%: $(PEERS)/.ready
	$(PEERS)/$(SCRIPTS)/python benchmarks/published/$*.py --out $(PUBLISHED)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist demo site .docs-cache docs/api reproduction reproduction-quick published

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

# Other packages have an environment of their own, with the NumPy that ProbNum needs.
$(PEERS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/$(SCRIPTS)/python -m pip install --quiet --editable ".[plot,sklearn]" "numpy<2" "scipy<1.16" probnum smt botorch
	@touch $@
