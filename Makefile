# make demo    install into .venv and fine-tune a 7B model on an emulated A100, under three allocators
# make test    the same environment, then linters, types, sanitizers and all tests
# make bench   the benchmarks
# make docs    the documentation as a site, in build/site
# make pytorch-2.12.0  the tests of tests/torch with that PyTorch, which goes into build/
# make evaluation  the paper's evaluation again, into docs/evaluation.md
# Needs python3 with its venv module and a C++20 compiler; everything else comes from PyPI into .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find core emulator src -type f -not -name '*.pyc')
NATIVE := $(shell find core emulator src tests/native bench/native -name '*.h' -o -name '*.cpp')
BUILD_TOOLS := $(shell sed -n 's/^requires = \[\(.*\)\]/\1/p' pyproject.toml | tr -d ',')
PIP := $(BIN)/pip --disable-pip-version-check -qq

.PHONY: demo test bench docs evaluation lint sanitize clean
.DELETE_ON_ERROR:

LORA := examples/lora.py
RUNS := build/lora

demo: .venv/trainable
	@mkdir -p $(dir $(RUNS))
	@echo "1. $(LORA), a LoRA fine-tuning of a 7B model, on an emulated A100 under three allocators:"
	@$(BIN)/gmlake compare --emulate a100-80g --keep $(RUNS) -f -- python $(LORA)
	@echo; echo "2. The trace of the first run on every allocator of the replay:"
	@$(BIN)/gmlake replay $(RUNS)/torch.gmt

# With everything installed nothing may be skipped for want of PyTorch. Files are shared out to the cores, of which
# more than four would need much memory.
test: lint sanitize .venv/emulated .venv/browser
	@echo "tests"
	@REQUIRE_TORCH=1 $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

lint: .venv/developing
	@echo "ruff, mypy, clang-format, layers"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/clang-format --dry-run -Werror $(NATIVE)
	@$(BIN)/python tools/check_layers.py

sanitize: .venv/tools
	@tests/native/run.sh address,undefined
	@tests/native/run.sh thread

docs: .venv/developing
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

bench: .venv/developing
	@$(BIN)/python -m bench

pytorch-%: .venv/emulated
	@test -d build/$@ || $(PIP) install --no-deps --target build/$@ torch==$*
	@PYTHONPATH=$(CURDIR)/build/$@ $(BIN)/pytest tests/torch

evaluation: .venv/installed
	@$(BIN)/gmlake workloads run paper --markdown docs/evaluation.md

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/tools: pyproject.toml
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP) install $(BUILD_TOOLS)
	@touch $@

# With the build tools in place, only what changed is compiled again; a plain `pip install .` would start afresh.
.venv/installed: .venv/tools $(SOURCES)
	@echo "building and installing gmlake (a minute or two the first time)"
	@$(PIP) install --no-build-isolation .
	@touch $@

# The package is there already: this adds only the tools its extra names.
.venv/developing: .venv/installed
	@$(PIP) install 'gmlake[dev]'
	@touch $@

# The CUDA build of PyTorch without NVIDIA's libraries, and what is trained with it.
.venv/trainable: .venv/installed requirements/emulated.txt
	@echo "installing PyTorch and the training stack for the emulated device"
	@$(PIP) install --no-deps -r requirements/emulated.txt
	@touch $@

# Reports are tested in a real browser; where it cannot be installed these tests are skipped, and say so.
.venv/browser: .venv/tools
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && echo "installing chromium" && \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
	  echo "chromium is missing and cannot be installed: reports are not tested in a browser"
	@touch $@

.venv/emulated: .venv/trainable requirements/deepspeed.txt
	@DS_BUILD_OPS=0 $(PIP) install --no-deps --no-build-isolation -r requirements/deepspeed.txt
	@touch $@
