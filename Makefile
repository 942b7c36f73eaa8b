# The two commands of a new user: `make run` and `make test`. Both set everything up first.
PYTHON ?= python3
BIN := .venv/bin

run: .venv/installed
	$(BIN)/reward-pipeline run params/quickstart.yaml

test: .venv/installed
	.ci/test

check: .venv/installed
	.ci/check

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast,qlora,peer,s3]'
	@touch $@

.PHONY: run test check
