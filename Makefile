# Every path here is relative: an absolute one would break where the folder's name has a space.
PYTHON ?= python3
CORES ?= $(shell nproc 2>/dev/null || echo 1)
VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
PRESET ?= small
TORCH := 2.13.0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help figures test test-reliability test-slurm bench audit gpu-check lint format docs constraints clean moved

# An environment remembers where it was made; when the folder was moved or copied, make it anew.
ifneq ($(wildcard $(INSTALLED)),)
ifneq ($(shell cat $(INSTALLED)),$(CURDIR))
MOVED := moved
endif
endif

help: ## list the targets
	@echo "Usage: make TARGET [CORES=n] [PYTHON=python3.12] [PRESET=small|full]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

figures: $(INSTALLED) ## install into .venv if needed and run the default workflow
	$(RUN) -m snakemake --cores $(CORES)

test: $(INSTALLED_DEV) ## install into .venv if needed and run the tests, but the two sets below
	$(RUN) -m pytest -m 'not slurm' --ignore tests/reliability --numprocesses $(CORES) --dist loadfile

test-reliability: $(INSTALLED_DEV) ## kills, full disks, damaged files and bad input, for real
	$(RUN) -m pytest tests/reliability

test-slurm: $(INSTALLED_DEV) ## the tests on a real Slurm, started on this machine (as root)
	$(RUN) -m pytest -m slurm tests/cluster

bench: $(INSTALLED) ## measure against the published procedure (PRESET=small|full)
	$(RUN) -m benchmarks.run --preset $(PRESET)

audit: $(INSTALLED) ## compare found values with searches thirty times as long (PRESET=small|full)
	$(RUN) -m benchmarks.audit --preset $(PRESET)

# Runs with any Python that has torch, triton and pytest too: make gpu-check RUN=python3
gpu-check: $(if $(filter $(VENV)/bin/python,$(RUN)),$(INSTALLED_DEV)) ## check and measure the GPU path; without a card, the kernels in Triton's interpreter
	PYTHONPATH=src $(RUN) -m benchmarks.gpu_check

lint: $(INSTALLED_DEV) ## ruff, snakefmt, snakemake --lint and mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m snakefmt --check Snakefile workflow
	$(RUN) -m snakemake --lint
	$(RUN) -m mypy

format: $(INSTALLED_DEV) ## rewrite Python and Snakemake files in the project's format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .
	$(RUN) -m snakefmt Snakefile workflow

docs: $(INSTALLED) ## regenerate docs/configuration.md from the schema
	$(RUN) docs/generate_configuration.py

# The local version of a CPU build (+cpu) is taken off, so that any build of that release fits.
constraints: $(INSTALLED_DEV) ## resolve pyproject.toml anew into constraints.txt
	CUSTOM_COMPILE_COMMAND='make constraints' $(RUN) -m piptools compile --quiet \
	  --upgrade --upgrade-package torch==$(TORCH) --extra test --extra dev --extra slurm \
	  --strip-extras --no-emit-options --output-file constraints.txt pyproject.toml
	sed -E -i 's/^([A-Za-z0-9._-]+==[^+ ]+)\+[A-Za-z0-9.]+/\1/' constraints.txt

clean: ## remove .venv, caches and everything produced
	rm -rf $(VENV) .snakemake .mypy_cache .pytest_cache .ruff_cache .hypothesis build
	find results -mindepth 1 ! -name .gitkeep -delete

moved:
	rm -rf $(VENV)

# Debian's Python may come without ensurepip; pip then installs pip into the environment.
$(RUN): $(MOVED)
	@command -v $(PYTHON) >/dev/null || \
	  { echo "No $(PYTHON) here. Install Python 3.11 or newer, or say which: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1), and wordsens needs Python 3.11 or newer. Say which: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(RUN) install --quiet pip; }

$(INSTALLED): pyproject.toml constraints.txt $(MOVED) | $(RUN)
	$(RUN) -m pip install --quiet --constraint constraints.txt --editable .
	@printf '%s' "$(CURDIR)" >$(INSTALLED)

$(INSTALLED_DEV): $(INSTALLED)
	$(RUN) -m pip install --quiet --constraint constraints.txt --editable '.[test,dev,slurm]'
	@touch $(INSTALLED_DEV)
