# make demo   set everything up, then run the quickstart blueprint to its report
# make test   set everything up, then run the whole test suite
# make test-environments   the tests that need other people's packages (verifiers, OpenEnv), each in an environment of its own
# make cpu-stack   verl and vLLM for this machine's CPU, in two environments of their own (6 GB), with a self-test
# make test-stack  the tests that train with verl on Ray and sample with vLLM
# make test-trinity   Trinity-RFT validates what is rendered for it, and plays our agents (2 GB)
# make lint   ruff and mypy        make soak   the long suites at their full counts        make clean
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The first interpreter on PATH that the project supports; `make PYTHON=/path/to/python demo` chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo $$p; break; }; done)
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
# Not quiet: pip names each package with its size as it goes, with a bar in a terminal.
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# Without a terminal pip is silent while it unpacks: say every 15 s how far it is.
TELL := [ -t 1 ] || { (while sleep 15 >/dev/null; do echo "    $$(du -sm $(VENV) | cut -f1) MB unpacked"; done) & \
	tell=$$!; trap 'kill $$tell' EXIT; }
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
# $(call CPU_TORCH,COMMAND) installs torch without CUDA by this pip.
CPU_TORCH = { $(1) --no-index --no-deps $(TORCH) 2>/dev/null \
	|| $(1) --no-deps --retries 1 --timeout 20 --index-url $(TORCH_CPU_INDEX) $(TORCH) 2>/dev/null; }
# Processes that tests start find our modules compiled, whatever the environment says.
test soak: export PYTHONDONTWRITEBYTECODE :=
# More than there are cores: many tests wait.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 2 )))

.PHONY: setup tmux bubblewrap demo test test-environments cpu-stack test-stack test-trinity soak lint format clean
.DEFAULT_GOAL := setup

setup: $(VENV)/ready

# Without a GPU, torch comes first and as the CPU build: from a local wheel, else from PyTorch's CPU index; only when
# neither can be reached, from the default index (which may bring CUDA). With a GPU the default index decides.
$(VENV)/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11, 3.12 or 3.13 on PATH: install one, or make PYTHON=/path/to/python"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: on Debian or Ubuntu type: sudo apt-get install python3-venv"; exit 2; }
	@echo "1/3 a virtual environment in $(VENV), with pip (2 MB)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --quiet --upgrade 'pip>=24'
	@$(TELL); if ! $(BIN)/python -c 'import torch' 2>/dev/null && ! nvidia-smi >/dev/null 2>&1; then \
		echo "2/3 $(TORCH), CPU build (200 MB)"; \
		$(call CPU_TORCH,$(PIP)) || echo "no CPU build within reach: the default index decides"; \
	fi
	@echo "3/3 the harness, the trainer and what tests need (300 MB)"
	@$(TELL); $(PIP) -c constraints.txt -e '.[trainer,notebook,dev]'
	@touch $@

tmux:
	@command -v tmux >/dev/null || { \
		sudo=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		if command -v apt-get >/dev/null; then how="apt-get install -y tmux"; $$sudo apt-get update -qq; \
		elif command -v dnf >/dev/null; then how="dnf install -y tmux"; \
		elif command -v pacman >/dev/null; then how="pacman -S --noconfirm tmux"; \
		elif command -v apk >/dev/null; then how="apk add tmux"; \
		elif command -v brew >/dev/null; then how="brew install tmux"; sudo=; \
		else how=; fi; \
		{ [ -n "$$how" ] && echo "installing tmux: $$how" && $$sudo $$how >/dev/null 2>&1; } \
		|| { echo "tmux is needed and could not be installed here; type: sudo $${how:-<your package manager> install tmux}"; exit 2; }; }

# Tests that need it are skipped where it is not; a run uses Landlock there.
bubblewrap:
	@command -v bwrap >/dev/null || ! command -v apt-get >/dev/null || { \
		sudo=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		$$sudo apt-get update -qq; $$sudo apt-get install -y bubblewrap; } >/dev/null 2>&1 \
		|| echo "bubblewrap could not be installed here: what needs it is not tested"

demo: setup tmux
	$(BIN)/harness run blueprints/quickstart/blueprint.md

test: setup tmux bubblewrap
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

# verifiers pins other versions of libraries than the trainer, and its two generations of one another.
ENVIRONMENTS := .venv-environments
VERIFIERS := verifiers[openenv]==0.4.0 openenv==0.4.1 uv==0.13.9
VERIFIERS_V0 := verifiers==0.1.14 sophistry-bench-sprint==0.1.6
test-environments: export VERIFIERS_PYTHON := $(CURDIR)/$(ENVIRONMENTS)/verifiers/bin/python
test-environments: export VERIFIERS_V0_PYTHON := $(CURDIR)/$(ENVIRONMENTS)/verifiers-v0/bin/python
test-environments: export OPENENV_PYTHON := $(VERIFIERS_PYTHON)
test-environments: setup $(ENVIRONMENTS)/verifiers/ready $(ENVIRONMENTS)/verifiers-v0/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 tests/trainer_core/environments

$(ENVIRONMENTS)/verifiers/ready: PACKAGES := $(VERIFIERS)
$(ENVIRONMENTS)/verifiers-v0/ready: PACKAGES := $(VERIFIERS_V0)
$(ENVIRONMENTS)/%/ready: Makefile
	@echo "an environment for $(PACKAGES): 700 MB, some minutes"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --disable-pip-version-check --quiet $(PACKAGES)
	@touch $@

# Each package of the stack by its exact version and without dependencies: verl declares fewer than it needs, vLLM's
# CPU build asks for a torch that another index has, and the two want different versions of transformers.
STACK := .venv-stack
STACK_TESTS := OMP_NUM_THREADS=1 VLLM_PYTHON=$(CURDIR)/$(STACK)/vllm/bin/python $(STACK)/verl/bin/python -m pytest -q -p no:xdist --disable-warnings --timeout 900
cpu-stack: $(STACK)/self-test

$(STACK)/%/ready: stack/%.txt constraints.txt
	@echo "$*: an environment of 2 to 4 GB"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(call CPU_TORCH,$(@D)/bin/python -m pip install --disable-pip-version-check --quiet) \
		|| { echo "no CPU build of $(TORCH) within reach"; exit 2; }
	@$(@D)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps -r $<
	@if [ $* = verl ]; then $(@D)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps -e .; fi
	@touch $@

$(STACK)/self-test: $(STACK)/verl/ready $(STACK)/vllm/ready
	@echo "self-test: two minutes"
	@$(STACK_TESTS) tests/trainer_core/stack -k "samples_from_the_weights or (same_steps and one)"
	@touch $@

# Some in processes of their own, as a training is: after the Rays of the others, one more does not always start.
ALONE := tests/trainer_core/stack/test_watch.py tests/trainer_core/stack/test_verls_servers.py
test-stack: $(STACK)/verl/ready $(STACK)/vllm/ready
	@$(STACK_TESTS) tests/trainer_core/stack $(ALONE:%=--ignore %)
	@for each in $(ALONE); do $(STACK_TESTS) $$each || exit 1; done

test-trinity: setup $(STACK)/trinity/ready
	OMP_NUM_THREADS=1 TRINITY_PYTHON=$(CURDIR)/$(STACK)/trinity/bin/python $(BIN)/python -m pytest -q tests/trainer_core/stack/test_trinity.py

soak: setup tmux
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m soak --timeout 0

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(ENVIRONMENTS) $(STACK) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
