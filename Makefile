PYTHON ?= python3
BIN := .venv/bin
# Two test files, or two notebooks, at a time: much of a run is compiling, on one core.
IN_PAIRS := -n 2 --dist loadfile

# What pip may choose, and what it builds with; older ones know only the first variable.
LOCKED := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt

.PHONY: course quick lab test unit smoke bench build site lock

course: .venv/course
	$(BIN)/python -m course run

quick: .venv/course
	$(BIN)/python -m course run --quick

# JupyterLab aligns every paragraph to the left; the style sheet sends the Persian ones to the right.
lab: .venv/course
	mkdir -p build/jupyter/custom
	cp course/site/lab.css build/jupyter/custom/custom.css
	JUPYTER_CONFIG_DIR=build/jupyter $(BIN)/jupyter lab --custom-css notebooks

test: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m course build --check
	$(MAKE) unit
	$(BIN)/python -m pytest $(IN_PAIRS) --nbval-lax --nbval-current-env notebooks

# What .ci/run repeats with other versions: make unit smoke BIN=…
unit:
	$(BIN)/python -m pytest $(IN_PAIRS)

smoke:
	ls notebooks/source | cut -c 1-2 | xargs -P 2 -n 1 $(BIN)/python -m course run --quick --out build/quick

bench: .venv/course
	$(BIN)/python -m benchmarks

build: .venv/course
	$(BIN)/python -m course build

site: .venv/course
	$(BIN)/python -m course html --out build/site

# The newest versions that fit each other on every supported Python and system: one for all.
lock:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet uv
	echo setuptools | UV_SYSTEM_CERTS=1 build/tools/bin/uv pip compile --quiet --upgrade --universal \
		--python-version 3.11 --fork-strategy fewest --all-extras --no-annotate \
		--custom-compile-command 'make lock' --output-file constraints.txt pyproject.toml -

# One mark for each set of extras; a failed installation leaves none, so the next run repeats it.
.venv/course .venv/test: .venv/%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(LOCKED) $(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@
