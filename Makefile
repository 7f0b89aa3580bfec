# Every target sets up what it needs. `make PYTHON=python3.12 test` uses another Python.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE =  # tests start many processes: what one compiles, the next reads
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check format docs bench dist clean

demo: $(VENV)/.base  ## expand a sample note with the shipped model
	$(BIN)/lmcells expand --pretty examples/notes/cardiology_admission.txt

test: $(VENV)/.dev  ## run all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(VENV)/.dev  ## lint, formatting, types and the layers of the architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## build the documentation into build/site, links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: $(VENV)/.dev  ## build the wheel and the source archive into dist/
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

bench: $(VENV)/.dev  ## measure what the README reports
	$(BIN)/python benchmarks/prepare_speed.py
	$(BIN)/python benchmarks/section_detection.py
	$(BIN)/python benchmarks/training_speed.py --device cpu
	$(BIN)/python benchmarks/scoring_speed.py
	$(BIN)/python benchmarks/expansion_speed.py
	$(BIN)/python benchmarks/service_speed.py

clean:
	rm -rf $(VENV) build

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing what the tests need: a few minutes, 5 GB."
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
