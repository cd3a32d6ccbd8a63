# Every task is one word. Each target sets up its own virtual environment when it is not there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
STAMP  := $(VENV)/.installed
BENCH  := .venv-bench
PEERS  := .venv-peers
COMPARE := .venv-compare
FIELD  := .venv-field

.PHONY: demo test test-compare test-lowest test-torch check format study reproduce field-study docs fuzz clean
.PHONY: bench bench-roofline bench-growth bench-scale bench-files bench-peers

$(CORE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "proportio needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(STAMP): $(CORE)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(CORE)             ## digits, one of them unknown to the reference
	@$(BIN)/proportio demo

test: $(STAMP)            ## the whole test suite, doctests included
	$(BIN)/python -m pytest -q -n 2 -m 'not slow'

test-torch: $(STAMP)      ## fetches PyTorch, then the tests of tensors
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pytest -q tests/test_torch.py

check: $(STAMP)           ## format, lint, types, layers, doctests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q src

format: $(STAMP)          ## what `check` would complain about and a machine can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BENCH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --editable .
	-$(BENCH)/bin/python -m pip install --quiet torch==2.13.0 pykeops==2.3
	@touch $@

bench: $(BENCH)/.installed ## ratios of one run; fetches PyTorch and PyKeOps into an environment of its own
	$(BENCH)/bin/python benchmarks/run.py

bench-scale: $(STAMP)     ## 10^8 rows of Parquet (2 GB in a temporary folder), Dask and Spark, against one process
	$(BIN)/python benchmarks/scale.py

bench-files: $(STAMP)     ## 200 FCS files in one command, against reading them alone
	$(BIN)/python benchmarks/files.py

bench-roofline: $(STAMP)  ## the share of the machine's own limits that each kernel reaches
	$(BIN)/python benchmarks/roofline.py

bench-growth: $(STAMP)    ## is the cost linear in rows, features and columns, and flat in classes?
	$(BIN)/python benchmarks/growth.py

$(PEERS)/.installed: pyproject.toml benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers.txt --editable .
	@touch $@

bench-peers: $(PEERS)/.installed ## the field's libraries on the same data; PEERS_ARGS=--full for the whole grid
	$(PEERS)/bin/python benchmarks/peers.py $(or $(PEERS_ARGS),--quick)

fuzz: $(STAMP)            ## a million mutated inputs for the readers of files and gates; an interrupted run goes on
	$(BIN)/python benchmarks/fuzz.py 1000000 --state build/fuzz.json

study: $(STAMP)           ## statistical checks at full size
	$(BIN)/python -m pytest -q -m slow tests
	$(BIN)/python benchmarks/study.py
	$(BIN)/python benchmarks/monitor.py
	$(BIN)/python benchmarks/monitor.py --only delays --reference 10000 --rows 1000

REPRODUCTION := build/reproduction
HIPC ?= $(wildcard ../shared/hipc)

reproduce: $(STAMP)       ## the paper's experiments in full, then docs/reproduction.md; HIPC=directory of the cells
	$(BIN)/proportio reproduce $(REPRODUCTION) $(if $(HIPC),--hipc $(HIPC))
	$(BIN)/python -m proportio.reproduce.document $(REPRODUCTION) docs

.venv-docs/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --upgrade pip
	.venv-docs/bin/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(STAMP) .venv-docs/.installed ## every code block of the documentation, run; then the site, in build/site
	$(BIN)/python -m pytest -q tests/test_docs.py
	.venv-docs/bin/mkdocs build --strict

test-lowest:              ## the test suite on the lowest supported dependencies
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade pip
	.venv-lowest/bin/python -m pip install --quiet --constraint requirements-lowest.txt --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -q -n 2 -m 'not slow'

$(COMPARE)/.installed: pyproject.toml
	$(PYTHON) -m venv $(COMPARE)
	$(COMPARE)/bin/python -m pip install --quiet --upgrade pip
	$(COMPARE)/bin/python -m pip install --quiet --editable .
	$(COMPARE)/bin/python -m pip install --quiet pot quapy==0.2.3 mlquantify==0.5.1 cvxpy pandas matplotlib pytest
	$(COMPARE)/bin/python -m pip install --quiet --no-deps abstention==0.1.3.1 quantificationlib==0.1.2
	@touch $@

test-compare: $(COMPARE)/.installed ## every related method against the field's libraries, in an environment of their own
	$(COMPARE)/bin/python -m pytest -q tests/compare

$(FIELD)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FIELD)
	$(FIELD)/bin/python -m pip install --quiet --upgrade pip
	$(FIELD)/bin/python -m pip install --quiet --editable '.[reproduce]' pyreadr
	@touch $@

field-study: $(FIELD)/.installed ## every method on real data, then docs/field-study.md; SIZE=full for the whole of it
	$(FIELD)/bin/python -m benchmarks.field --$(or $(SIZE),quick)

clean:
	rm -rf .venv* .pytest_cache .mypy_cache .ruff_cache .hypothesis
