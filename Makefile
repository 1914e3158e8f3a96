# Paceline's commands; `make` alone lists them. Each makes the virtual environment and builds the engine when needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WITH_TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
# With DELAYS=SEED, on an engine that stays between steps of its protocols: see engine/delays.
WITH_DELAYS = $(if $(DELAYS),PACELINE_DELAYS=$(DELAYS) )PYTHONPATH=tests$(if $(DELAYS),:$$($(WITH_TOOLS) scripts/delayed-engine))
WITH_TENSORFLOW := PATH="$(CURDIR)/$(VENV)/tensorflow/bin:$$PATH" $(VENV)/tensorflow/bin/python
JOBS ?= $(shell nproc)
LANE_JOBS := $(shell expr \( $(JOBS) + 1 \) / 2)
# Hundreds of processes import the same modules, which are compiled once also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=
# What was compiled before, in this clone or another, is not compiled again.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
endif

# Each has requirements, an environment in .venv and a folder in tests/frameworks, all of its name.
FRAMEWORKS := tensorflow jax trainers
TORCH_VERSIONS ?= 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0
TENSORFLOW_VERSIONS ?= 2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0
JAX_VERSIONS ?= 0.6.2 0.7.2 0.8.3 0.9.2 0.10.2
# A checkout of Horovod; this one is made when it is not there.
HOROVOD ?= build/horovod

ENGINE_SOURCES := CMakeLists.txt pyproject.toml $(shell find engine -path engine/tests -prune -o -type f -print) \
    $(shell find engine/tests/device/double -type f)
CPP_FILES := $(shell find engine bench/native -name '*.cpp' -o -name '*.hpp' -o -name '*.cu')
HEADERS := $(filter %.hpp,$(CPP_FILES))
TIDY_FILES := $(filter-out engine/python/% engine/tests/%,$(filter %.cpp,$(CPP_FILES)))
TIDY_SETTINGS := CMakeLists.txt bench/CMakeLists.txt .clang-tidy requirements/test.lock scripts/tidy.py
PYTHON_FILES := src bench tests scripts studies examples

PYTEST := python -m pytest
SUITE_PART := python tests/torch_suite/run.py --select representative

# Tests of one process each, which do not mind what else runs: `make check` has them.
ONE_PROCESS := $(addprefix tests/,cpu formats order plan settings topology)
# To look for them in all files would take longer than the tests. Those in tests/frameworks have environments of their own.
WITH_SMOKE = $(shell grep -rl 'mark\.smoke' tests --include='test_*.py' --exclude-dir=frameworks)

# The folders in which tests are marked `long`, and what those of each cover: `make verify` runs them once any of it has
# changed, or where no history tells.
LONG_FOLDERS := bench characterize codec group segment torch
COVERED_BY_bench := bench $(addprefix src/paceline/,coordinate torch)
COVERED_BY_characterize := bench
COVERED_BY_codec := engine/codec engine/kernel
COVERED_BY_group := $(addprefix engine/,kernel link message program segment shared) tests/programs
COVERED_BY_segment := engine/segment
COVERED_BY_torch := src/paceline/torch $(addprefix scripts/,hybrid_exactness.py hybrid_limited.py)

LATELY := HEAD~20
unchanged = $(shell git diff --quiet $(LATELY) -- tests/$(1) $(COVERED_BY_$(1)) 2>/dev/null && echo yes)
CHANGED_FOLDERS = $(foreach folder,$(LONG_FOLDERS),$(if $(call unchanged,$(folder)),,$(folder)))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo check test verify door test-long long-covers lint cpp-test sanitize gpu-test gpu-bench pytest differential campaign put-back leaks torch-suite torch-suite-part torch-versions tensorflow-versions jax-versions horovod-suite bench bench-peers wheel wheel-check release-check framework-tests framework-smoke $(FRAMEWORKS:%=%-tests) format lock docs system clean distclean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: $(VENV)/engine.stamp ## train on four ranks with Paceline, and the same with Gloo beside it
	$(BIN)/paceline demo

check: $(VENV)/test.stamp $(VENV)/engine.stamp ## lint, types and fast tests, with one test of every kind of job; minutes
	$(WITH_TOOLS) scripts/together 'make lint' '$(PYTEST) $(ONE_PROCESS) $(ARGS)' \
	    '$(PYTEST) -m smoke $(WITH_SMOKE) $(ARGS)'

test: system $(VENV)/test.stamp $(VENV)/engine.stamp ## does it work here? every test of behaviour, C++ and Python
	@$(WITH_TOOLS) python scripts/test_run.py $(ARGS)

# The longest first, and beside each other what fills a core and what waits.
verify: system $(VENV)/test.stamp $(VENV)/engine.stamp ## may a change land? lint, types, sanitizers, the wheel, peers' suites, long networks
	$(WITH_TOOLS) CMAKE_BUILD_PARALLEL_LEVEL=$(LANE_JOBS) scripts/together \
	    'scripts/cpp-tests tsan thread' 'scripts/cpp-tests asan address,undefined' 'make lint JOBS=$(LANE_JOBS)' \
	    'python scripts/wheel_check.py' $(if $(CHANGED_FOLDERS),'make test-long LONG_FOLDERS="$(CHANGED_FOLDERS)"') \
	    '$(PYTEST) -m verify $(ARGS)' '$(SUITE_PART)' \
	    $(FRAMEWORKS:%='make %-tests ARGS="-m smoke"') 'make docs' 'scripts/door/here $(ARGS)'

door: ## the README's two commands on bare systems, as root (make door ROWS="trixie-user-container" JSON=FILE BIND=FOLDER)
	$(PYTHON) scripts/door/door.py $(if $(ROWS),--rows $(ROWS)) $(if $(JSON),--json $(JSON)) $(if $(BIND),--bind $(BIND))

test-long: $(VENV)/test.stamp $(VENV)/engine.stamp ## what takes long and covers few files; `make verify` runs it once they have changed
	$(WITH_TOOLS) $(PYTEST) -m long $(LONG_FOLDERS:%=tests/%) $(ARGS)

long-covers:
	@echo $(foreach folder,$(LONG_FOLDERS),tests/$(folder) $(COVERED_BY_$(folder)))

lint: $(VENV)/test.stamp build/tidy.stamp build/format.stamp ## formatting, style, types
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check --quiet $(PYTHON_FILES)
	$(BIN)/mypy

cpp-test: $(VENV)/test.stamp $(VENV)/engine.stamp ## C++ tests of the engine
	$(WITH_TOOLS) scripts/cpp-tests plain

sanitize: $(VENV)/test.stamp ## C++ tests under AddressSanitizer with UBSan, then under ThreadSanitizer
	$(WITH_TOOLS) scripts/cpp-tests asan address,undefined
	$(WITH_TOOLS) scripts/cpp-tests tsan thread

gpu-test: ## kernels and collectives on a GPU against the engine's own; skips where there is none
	$(PYTHON) scripts/gpu.py test

gpu-bench: ## the kernels on a GPU beside the driver's copy; skips where there is none
	$(PYTHON) scripts/gpu.py bench

pytest: $(VENV)/test.stamp $(VENV)/engine.stamp ## Python tests (make pytest ARGS="tests/plan -k ring")
	$(WITH_TOOLS) $(BIN)/python -m pytest $(ARGS)

leaks: $(VENV)/test.stamp $(VENV)/engine.stamp ## make and close each thing that users make 3000 times; minutes
	LEAK_ROUNDS=3000 $(WITH_TOOLS) $(BIN)/python -m pytest tests/group/test_leaks.py $(ARGS)

differential: $(VENV)/test.stamp $(VENV)/engine.stamp ## judge drawn programs (make differential SEED=1 MINUTES=5 JSON=FILE)
	$(WITH_DELAYS) $(WITH_TOOLS) $(BIN)/python tests/differential/machine.py --seed $(or $(SEED),1) \
	    --minutes $(or $(MINUTES),5) $(if $(JSON),--json $(JSON)) $(ARGS)

campaign: $(VENV)/test.stamp $(VENV)/engine.stamp ## do to jobs what befalls jobs, and judge what comes of it (make campaign SEED=1 MINUTES=5 JSON=FILE)
	$(WITH_DELAYS) $(WITH_TOOLS) $(BIN)/python tests/campaign/campaign.py --seed $(or $(SEED),1) \
	    --minutes $(or $(MINUTES),5) $(if $(JSON),--json $(JSON)) $(ARGS)

put-back: $(VENV)/test.stamp $(VENV)/engine.stamp ## put faults of the past back one by one, and let both machines look for them (make put-back ONLY=FAULT MINUTES=3)
	PYTHONPATH=tests $(WITH_TOOLS) $(BIN)/python tests/put_back/put_back.py --seed $(or $(SEED),1) \
	    --minutes $(or $(MINUTES),3) $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON)) $(ARGS)

torch-suite: $(VENV)/test.stamp $(VENV)/engine.stamp ## torch's own distributed test suite against Paceline
	$(WITH_TOOLS) $(BIN)/python tests/torch_suite/run.py --select all $(ARGS)

torch-suite-part: $(VENV)/test.stamp $(VENV)/engine.stamp ## a representative part of it, in minutes
	$(WITH_TOOLS) $(SUITE_PART)

horovod-suite: $(VENV)/tensorflow.stamp $(VENV)/test.stamp $(VENV)/engine.stamp $(HOROVOD) ## Horovod's own tests and examples for TensorFlow and Keras against Paceline
	$(WITH_TENSORFLOW) tests/horovod_suite/run.py --horovod $(HOROVOD) --failures-only $(ARGS)
	$(WITH_TENSORFLOW) tests/horovod_suite/examples.py --horovod $(HOROVOD)

build/horovod:
	git clone --quiet --depth 1 --branch v0.28.1 -c advice.detachedHead=false https://github.com/horovod/horovod $@

framework-tests: $(FRAMEWORKS:%=%-tests) ## tests of the faces of TensorFlow and JAX, and under trainers, each in an environment of its own

$(FRAMEWORKS:%=%-tests): %-tests: $(VENV)/%.stamp $(VENV)/test.stamp $(VENV)/engine.stamp
	PATH="$(CURDIR)/$(VENV)/$*/bin:$$PATH" $(VENV)/$*/bin/python -m pytest tests/frameworks/$* $(ARGS)

framework-smoke: $(VENV)/test.stamp $(VENV)/engine.stamp ## those that are marked `smoke`, as CI runs them; a minute or two with the installation
	$(WITH_TOOLS) scripts/together $(FRAMEWORKS:%='make %-tests ARGS="-m smoke"')

torch-versions: wheel ## tests/torch with every supported version of torch; some gigabytes each
	PYTHON="$(abspath $(BIN)/python)" scripts/versions torch $(TORCH_VERSIONS)

tensorflow-versions: $(VENV)/test.stamp $(VENV)/engine.stamp ## the smoke tests of TensorFlow's face with every supported version
	PYTHON="$(abspath $(BIN)/python)" scripts/versions tensorflow $(TENSORFLOW_VERSIONS)

jax-versions: $(VENV)/test.stamp $(VENV)/engine.stamp ## the smoke tests of JAX's face with a version of every minor release that is supported
	PYTHON="$(abspath $(BIN)/python)" scripts/versions jax $(JAX_VERSIONS)

bench: $(VENV)/test.stamp $(VENV)/engine.stamp ## all_reduce beside Gloo, Open MPI and MPICH
	@mkdir -p build
	$(WITH_TOOLS) $(BIN)/paceline bench all_reduce -n 2 -b 8 -e 64M -f 8 --against gloo,openmpi,mpich --limit --json build/bench.json $(ARGS)

bench-peers: $(VENV)/peers/intelmpi.stamp ## install Intel MPI, for --against intelmpi, in an environment of its own

wheel: $(VENV)/demo.stamp ## dist/paceline-*.whl
	SKBUILD_BUILD_DIR=build/wheel $(WITH_TOOLS) $(BIN)/python -m pip wheel . --no-deps --no-build-isolation --wheel-dir dist

wheel-check: $(VENV)/engine.stamp ## build the wheel as a user does; two processes all-reduce from it, with no compiler and no torch
	$(BIN)/python scripts/wheel_check.py

release-check: $(VENV)/release.stamp ## sdist, a wheel for every Python, their manylinux tags and metadata
	$(VENV)/release/bin/python scripts/release_check.py

format: $(VENV)/test.stamp ## rewrite what `make lint` checks the format of
	$(BIN)/ruff check --fix-only --quiet $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CPP_FILES)

docs: $(VENV)/docs.stamp $(VENV)/test.stamp $(VENV)/engine.stamp ## the documentation as a site, in build/site; a broken link fails
	$(BIN)/python scripts/reference.py --check
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict

lock: ## newest versions into requirements/*.lock
	scripts/lock

clean: ## remove what was built
	rm -rf build dist $(VENV)/engine.stamp

distclean: clean ## remove the virtual environment too
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

system:
	@scripts/system-packages

$(VENV)/demo.stamp: requirements/demo.lock requirements/cuda.lock
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV) $<
	@touch $@

$(VENV)/test.stamp: requirements/test.lock $(VENV)/demo.stamp $(addprefix bench/,pyproject.toml CMakeLists.txt native/instruments.cpp) \
    $(addprefix engine/,types/elements.hpp types/codecs.hpp kernel/reduce.hpp codec/codec.hpp)
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV) $<
	@$(WITH_TOOLS) $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable ./bench
	@touch $@

$(VENV)/peers/intelmpi.stamp: requirements/intelmpi.lock $(VENV)/demo.stamp
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV)/peers/intelmpi $<
	@touch $@

# What these lack comes from the environment of the tests, Paceline and torch too.
$(FRAMEWORKS:%=$(VENV)/%.stamp): $(VENV)/%.stamp: requirements/%.lock $(VENV)/test.stamp
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV)/$* $< $(VENV)
	@touch $@

$(VENV)/docs.stamp: requirements/docs.lock
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV)/docs $<
	@touch $@

$(VENV)/release.stamp: requirements/release.lock $(VENV)/demo.stamp
	@PYTHON="$(PYTHON)" scripts/bootstrap $(VENV)/release $<
	@touch $@

# Editable: a change of Python code needs no build.
$(VENV)/engine.stamp: $(ENGINE_SOURCES) $(VENV)/demo.stamp
	@echo "Building the engine: up to about $(shell expr 1 + 2 / $(JOBS)) minutes on $(JOBS) cores"
	@SKBUILD_BUILD_DIR=build/engine $(WITH_TOOLS) scripts/show_progress '^ *\[[0-9]+/[0-9]+\] ' \
	    $(BIN)/python -m pip install --verbose --disable-pip-version-check \
	    --no-build-isolation --no-deps --config-settings=cmake.define.PACELINE_TEST_LIBRARIES=ON --editable .
	@touch $@

build/format.stamp: $(CPP_FILES) .clang-format requirements/test.lock | $(VENV)/test.stamp
	$(BIN)/clang-format --dry-run -Werror $(if $(filter-out $(CPP_FILES),$?),$(CPP_FILES),$?)
	@mkdir -p build && touch $@

build/tidy.stamp: $(TIDY_FILES) $(HEADERS) $(TIDY_SETTINGS) | $(VENV)/test.stamp
	@$(WITH_TOOLS) cmake -S . -B build/tidy -G Ninja --log-level=WARNING -DPACELINE_PYTHON=OFF >/dev/null
	@$(BIN)/python scripts/tidy.py --jobs $(JOBS) $(TIDY_FILES)
	@touch $@
