"""The command line, many times at the price of one import, for the tests that kill it.

    with forked_cli({"OPENAI_API_KEY": "sk-..."}) as cli:
        process = cli.start(["run", "--model", "demo", "--tasks", "..."], tmp_path / "log")
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

Each command is a process of its own, forked from one that has imported all and done nothing.
"""

import contextlib
import importlib
import json
import os
import select
import subprocess
import sys


class Forked:
    """A running command."""

    def __init__(self, pid, answers, log):
        self.pid, self._answers, self._log = pid, answers, log

    @property
    def has_ended(self):
        return bool(select.select([self._answers], [], [], 0)[0])

    @property
    def output(self):
        """What it printed so far, stdout and stderr."""
        return self._log.read_text()

    def wait(self, timeout=60):
        """The exit code, or minus the signal that ended it."""
        ready, _, _ = select.select([self._answers], [], [], timeout)
        if not ready:
            raise TimeoutError(f"still running after {timeout} s: {self.output}")
        return int(self._answers.readline())


class Cli:
    def __init__(self, process):
        self._process = process

    def start(self, arguments, log):
        words = {"arguments": [*map(str, arguments)], "log": str(log)}
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        return Forked(int(self._process.stdout.readline()), self._process.stdout, log)


@contextlib.contextmanager
def forked_cli(variables):
    """A Cli whose commands have these environment variables; it ends with the block."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0, "env": env}
    with subprocess.Popen([sys.executable, __file__], **pipes) as process:
        try:
            yield Cli(process)
        finally:
            process.kill()


def run(arguments, log):
    """In the child: the command, with both outputs in the file ``log``."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for output in (1, 2):
        os.dup2(file, output)
    from tcb_bench.__main__ import main

    try:
        return main(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def serve():
    for name in ("tcb_bench.run", "tcb_bench.commands", "tcb_bench.models.chat_load"):
        importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(run(**json.loads(line)))
        answer(pid)
        answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    serve()
