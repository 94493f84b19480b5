# make demo   set everything up, then run the quickstart blueprint to its report
# make test   set everything up, then run the whole test suite
# make lint   ruff and mypy        make soak   the long suites at their full counts        make clean
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The first interpreter on PATH that the project supports; `make PYTHON=/path/to/python demo` chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.10 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null && { echo $$p; break; }; done)
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
# The exact versions are those for Python 3.11 and 3.12; many of them no longer exist for 3.10, which gets the newest.
CONSTRAINTS := $(shell $(PYTHON) -c 'import sys; print("-c constraints.txt" if sys.version_info >= (3, 11) else "")' 2>/dev/null)
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
# One more than there are cores: some tests wait.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))

.PHONY: setup tmux demo test soak lint format clean
.DEFAULT_GOAL := setup

setup: $(VENV)/ready

# Without a GPU, torch comes first and as the CPU build: from a local wheel, else from PyTorch's CPU index; only when
# neither can be reached, from the default index (which may bring CUDA). With a GPU the default index decides.
$(VENV)/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.10, 3.11 or 3.12 on PATH: install one, or make PYTHON=/path/to/python"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: on Debian or Ubuntu type: sudo apt-get install python3-venv"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=24'
	@if ! $(BIN)/python -c 'import torch' 2>/dev/null && ! nvidia-smi >/dev/null 2>&1; then \
		echo "installing $(TORCH), CPU build"; \
		$(BIN)/python -m pip install --quiet --no-index --no-deps $(TORCH) 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --no-deps --retries 1 --timeout 20 --index-url $(TORCH_CPU_INDEX) $(TORCH) 2>/dev/null \
		|| echo "no CPU build within reach: the default index decides"; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	touch $@

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

demo: setup tmux
	$(BIN)/harness run blueprints/quickstart/blueprint.md

test: setup tmux
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

soak: setup tmux
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m soak

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
