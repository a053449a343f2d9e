# make run     set up, then train and evaluate the main job; ARGS="task=linear seed=1" passes settings on
# make test    set up, then style, types and tests
# make figures draws the pictures of README and docs anew from the numbers in docs/figures: seconds
# make docs    the documentation as a site: site/index.html
# make setup   .venv only, with this checkout in it: `import looplab` and `looplab` work in any folder

PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?= task=sparse_linear model.tokens=pairs
# PyTorch's build: cuda where there is an NVIDIA driver, else cpu; make setup TORCH=cpu overrides.
TORCH ?= $(if $(wildcard /proc/driver/nvidia/version),cuda,cpu)
TORCH_VERSION := 2.13.0
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: run test test-all figures docs setup

run: setup
	$(BIN)/python run.py $(ARGS)

test: .venv/.dev-ready .links/looplab
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

test-all: .venv/.dev-ready
	$(BIN)/pytest -n 2 -m ""

figures: setup
	$(BIN)/python -m looplab.gallery

docs: .venv/.docs-ready .links/looplab
	@echo "building the site in site/: pictures of kept results, notebooks, pages, the API"
	@echo "1 to 10 minutes, by what else the machine does; nothing is trained, no notebook is executed"
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

setup: .venv/.ready .links/looplab

# For mypy and editors, which do not follow looplab/__init__.py to the folders beside it.
.links/looplab: looplab Makefile
	@mkdir -p $@
	@ln -sfn $(addprefix ../../,$(filter-out looplab/__pycache__,$(wildcard looplab/*)) $(patsubst %/__init__.py,%,$(filter-out looplab/% tests/%,$(wildcard */__init__.py)))) $@/
	@touch $@

.venv/.ready: requirements.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Looplab needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv
	@echo "installing PyTorch $(TORCH_VERSION) ($(TORCH)) and what requirements.txt pins; minutes at most"
ifeq ($(TORCH)$(shell uname -s),cpuLinux)
	@# The local version +cpu keeps CUDA out whichever index answers: first those that pip knows of.
	@$(PIP) install -r requirements.txt "torch==$(TORCH_VERSION)+cpu" 2>/dev/null || \
	$(PIP) install -r requirements.txt "torch==$(TORCH_VERSION)+cpu" --extra-index-url $(TORCH_CPU_INDEX)
else
	@$(PIP) install -r requirements.txt "torch==$(TORCH_VERSION)"
endif
	@# Built by the setuptools that requirements.txt pins, for which no network is needed.
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev-ready: .venv/.ready requirements-dev.txt
	@$(PIP) install -r requirements-dev.txt
	@touch $@

.venv/.docs-ready: .venv/.ready requirements-docs.txt
	@$(PIP) install -r requirements-docs.txt
	@touch $@
