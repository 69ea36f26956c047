# PYTHON_ARGCOMPLETE_OK
"""``tcb-bench``: parse, one call, exit code."""

from __future__ import annotations

import signal
import sys
from typing import Any


def main(argv: list[str] | None = None) -> int:
    """Runs one command; errors are one line on stderr, exit codes as documented in README."""
    from tcb_bench import cli
    from tcb_bench.errors import TcbBenchError

    signal.signal(signal.SIGTERM, _terminated)
    try:
        return cli.run_command(sys.argv[1:] if argv is None else argv)
    except TcbBenchError as error:
        print(f"tcb-bench: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:  # before or after the part that has something to save
        print("tcb-bench: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    except BrokenPipeError:  # `tcb-bench ls tasks | head` closed its end
        sys.stderr.close()
        return 0


def _terminated(*_: Any) -> None:
    """SIGTERM as Ctrl-C: what is finished is saved, and no process of ours stays behind."""
    raise KeyboardInterrupt("terminated")


if __name__ == "__main__":
    sys.exit(main())
