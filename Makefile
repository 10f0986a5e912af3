# make demo and make test are the two commands; the rest are conveniences.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO_ARGS ?=
TEST_ARGS ?=
# Most tests wait for processes; files of one module stay together.
TEST_JOBS ?= 3
# PyTorch's public index of CPU builds, tried on machines without a GPU; may be out of reach.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: help demo test setup lint images lock preflight clean containers airgapped
.DEFAULT_GOAL := demo

demo: setup  ## the whole system on the bundled track, live
	@$(BIN)/overnight demo $(DEMO_ARGS)

test: setup  ## all tests, against a real Redis and real processes
	@sh ci/preflight.sh test $(PYTHON)
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest -q -n $(TEST_JOBS) --dist loadfile $(TEST_ARGS)

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /  \1|/p' Makefile | awk -F'|' '{printf "%-14s%s\n", $$1, $$2}'

setup: $(VENV)/.installed  ## the environment in .venv, and nothing outside of it

$(VENV)/.installed: ci/requirements.txt ci/install.sh ci/install_torch.sh pyproject.toml
	@sh ci/preflight.sh setup $(PYTHON)
	@TORCH_CPU_INDEX='$(TORCH_CPU_INDEX)' sh ci/install.sh $(PYTHON) $(VENV)

preflight:  ## name everything that this machine lacks
	@sh ci/preflight.sh test $(PYTHON)

lint: setup  ## ruff, mypy, and who imports whom
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check . && echo "ruff ok"
	@$(BIN)/mypy --no-error-summary && echo "mypy ok"
	@$(BIN)/lint-imports --no-cache >/tmp/overnight-imports.$$$$ 2>&1 && echo "floors ok" || { cat /tmp/overnight-imports.$$$$; rm -f /tmp/overnight-imports.$$$$; exit 1; }; rm -f /tmp/overnight-imports.$$$$

images: setup  ## the pictures in docs/images, from a real session
	@$(BIN)/python -m benchmarks.images

containers:  ## overnight-sandbox:cpu and overnight-services, from public base images
	@bash docker/build.sh

airgapped:  ## the base images from Debian's packages, where no registry is in reach; then make containers
	@bash docker/airgapped/build.sh

lock:  ## resolve what CI and the images install again, with hashes; needs pip-tools in .venv
	@for lock in 'ci/requirements.txt --extra dev --extra docker pyproject.toml ci/requirements.in' \
	  'docker/services.txt --extra docker pyproject.toml docker/services.in' \
	  'docker/sandbox.txt docker/sandbox.in'; do \
	    CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile -q --generate-hashes --allow-unsafe \
	      --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	      --no-emit-options --output-file $$lock || exit 1; done

clean:  ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
