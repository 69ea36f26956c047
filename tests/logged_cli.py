"""The command line with a log of what the engine was really asked, for the tests that kill it.

Run as ``python logged_cli.py LOG ARGUMENTS...``: each batch that goes through the model appends one
line with its number of rows before the forward pass starts.
"""

import sys
from pathlib import Path

from tcb_bench.__main__ import main
from tcb_bench.models.hf_engine import Engine


def log_calls(name, path):
    """Wraps an Engine method; its first argument holds the prompts of one batch."""
    original = getattr(Engine, name)

    def logged(self, prompts, *args, **kwargs):
        with path.open("a") as file:
            file.write(f"{len(prompts)}\n")
        return original(self, prompts, *args, **kwargs)

    setattr(Engine, name, logged)


if __name__ == "__main__":
    for method in ("last_states", "generate"):
        log_calls(method, Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
