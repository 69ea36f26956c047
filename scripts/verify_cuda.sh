#!/bin/sh
# Checks the hf back end on this machine's GPU; --help says how. PYTHON names another interpreter.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$here")
python=${PYTHON:-$root/.venv/bin/python}
[ -n "${PYTHON:-}" ] || [ -x "$python" ] || python=python3
cd "$here" # in the root, the folder tcb_bench would hide the installed package
if ! "$python" -c 'import tcb_bench.metrics' 2>/dev/null; then
  echo "$python cannot import tcb_bench: run 'make test-env', or 'pip install -e .' in $root" >&2
  exit 2
fi
exec "$python" verify_cuda.py "$@"
