"""Names of a run as the world may know them: the model's id, its weights, encoders, data sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.leaderboards.entry import ModelRecord
from tcb_bench.leaderboards.entry_files import folder_name
from tcb_bench.records import DataRecord, ReferenceRecord, TaskRecord

DEMO_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
ADAPTERS = ("peft", "delta", "adapter")
LIBRARIES = {"hf": "transformers_version", "vllm": "vllm_version"}
"""Back end -> what a run calls the version of the library behind it."""

CLOSED = ("openai", "deepseek")
"""Back ends whose models are named by their organisation and the API's name."""

LOCAL = re.compile(r"[/~.\\]|[A-Za-z]:[/\\]")
GGUF = re.compile(
    r"[._-]((?:IQ|TQ|Q)\d\w*|BF16|F16|F32|MXFP4\w*)(?:-\d+-of-\d+)?\.gguf$", re.IGNORECASE
)
SCHEME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:-]{0,39}")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def public_model(
    info: Mapping[str, Any], model_id: str | None, stated: str | None = None
) -> ModelRecord:
    """The model of a run under its public name.

    Args:
        info: what the back end said of it (``tcb_bench.model`` of a result).
        model_id: organisation/name; None = the run's own, if that is one of the hub.

        stated: the quantisation as the submitter says it; None = as the run does.

    Raises:
        UsageError: ``stated`` is no word or contradicts the run, or the run does not say what the
            model is called in public.
        DataError: the name is not organisation/name.
    """
    backend = str(info["backend"])
    name = model_id or _own_id(info, backend)
    folder_name(name)
    found = quantisation(info)
    whole = stated.partition(":")[0] if stated else None  # "gguf" says less than "gguf:Q4_1"
    if stated is not None and (not SCHEME.fullmatch(stated) or found not in (None, stated, whole)):
        raise UsageError(
            f"--quantisation {stated!r}: expected a word such as gguf:Q4_K_M"
            + (f"; the run itself says {found}" if found else "")
        )
    return ModelRecord(
        id=name,
        revision=info.get("revision"),
        dtype=info.get("dtype"),
        quantisation=stated or found,
        backend=backend,
        backend_version=info.get(LIBRARIES.get(backend, "backend_version")),
        n_parameters=info.get("n_parameters"),
        weights_sha256=info.get("weights_sha256"),
    )


def bounding_radius(info: Mapping[str, Any], radius: float | None) -> float | None:
    """R where the inequalities with it hold: None for a head with a soft-cap or a scale above 1.

    >>> bounding_radius({"softcap": None, "logit_scale": 0.25}, 5.0)
    5.0
    >>> bounding_radius({"softcap": 30.0, "logit_scale": 1.0}, 5.0) is None
    True
    """
    is_capped = info.get("softcap") is not None or (info.get("logit_scale") or 1.0) > 1
    return None if is_capped else radius


def _own_id(info: Mapping[str, Any], backend: str) -> str:
    name = str(info["model"])
    if name == "demo":
        raise UsageError(
            f"the embedded demo model is known as {DEMO_ID}: give --model-id {DEMO_ID}"
        )
    if any(info.get(key) for key in ADAPTERS):
        raise UsageError(
            "the model has an adapter, so the name of its base would mislead: "
            "name what was measured with --model-id ORG/NAME"
        )
    if "/" not in name or LOCAL.match(name) or (backend in LIBRARIES and not info.get("revision")):
        found = f"{backend}/{name}" if backend in CLOSED else "ORG/NAME"
        raise UsageError(
            f"the model was a local folder or has no organisation ({Path(name).name}); "
            f"name it as on the hub with --model-id {found}"
        )
    return name


def quantisation(info: Mapping[str, Any]) -> str | None:
    """The scheme of the weights' file in a word or two; None for plain weights.

    >>> quantisation({"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"})
    'gguf:Q4_1'
    >>> quantisation({"quantization": {"quant_method": "gptq", "bits": 4, "dataset": "c4"}})
    'gptq:4bit'
    """
    if file := info.get("gguf_file"):
        found = GGUF.search(str(file))
        return f"gguf:{found[1].upper()}" if found else "gguf"
    given = info.get("quantization")
    if isinstance(given, Mapping):
        return _scheme(given)
    if given:
        return given if WORD.fullmatch(str(given)) else "unknown"
    return next((name for name in ("gptqmodel", "autogptq") if info.get(name)), None)


def _scheme(config: Mapping[str, Any]) -> str:
    """``method:detail`` of a transformers quantisation config; lists and paths in it are not."""
    bits = next((b for b in (4, 8) if config.get(f"load_in_{b}bit")), config.get("bits"))
    details = (config.get("bnb_4bit_quant_type") if bits == 4 else None, config.get("format"))
    named = next((d for d in details if isinstance(d, str) and WORD.fullmatch(d)), None)
    detail = named or (f"{bits}bit" if isinstance(bits, int) else None)
    method = config.get("quant_method")
    name = method if isinstance(method, str) and WORD.fullmatch(method) else "unknown"
    return f"{name}:{detail}" if detail else name


def public_facts(record: TaskRecord, model: ModelRecord) -> dict[str, Any]:
    """Signature, data, reference and encoder of a task without anything of this machine.

    The signature's model is the public id; it stays the join of its parts.
    """
    reference = public_reference(record.reference)
    bert_score = public_encoder(record.bert_score)
    parts = {**record.signature_parts, "model": model.id}
    if reference is not None and record.reference is not None and "ref" in parts:
        kind, _, tail = parts["ref"].partition("@")
        parts["ref"] = f"{kind}@{reference.generator or 'data'}:{tail.rpartition(':')[2]}"
    if bert_score is not None and "bert" in parts:
        parts["bert"] = bert_score.replace(" ", "_")
    return {
        "signature": "|".join(f"{name}:{value}" for name, value in parts.items()),
        "signature_parts": parts,
        "data": public_data(record.data),
        "reference": reference,
        "bert_score": bert_score,
    }


def public_data(data: DataRecord) -> DataRecord:
    """The data set, a folder by its last name."""
    return data.model_copy(update={"id": public_name(data.id)})


def public_name(name: str) -> str:
    """A name of the hub as it is, of a path the last part.

    >>> public_name("cais/mmlu"), public_name("/srv/sets/mine")
    ('cais/mmlu', 'mine')
    """
    is_path = LOCAL.match(name) is not None
    return (re.split(r"[/\\]", name.rstrip("/\\"))[-1] or "local") if is_path else name


def public_reference(reference: ReferenceRecord | None) -> ReferenceRecord | None:
    """The reference, a generator that is a folder as ``local``."""
    if reference is None or reference.generator is None:
        return reference
    names = [public_label(label) for label in reference.generator.split("+")]
    return reference.model_copy(update={"generator": "+".join(names)})


def public_label(label: str) -> str:
    """A model's label, a folder as ``provider/local``.

    >>> public_label("hf/org/name@main"), public_label("hf//data/weights"), public_label("task")
    ('hf/org/name@main', 'hf/local', 'task')
    """
    provider, _, name = label.partition("/")
    is_folder = LOCAL.match(label) or LOCAL.match(name) or name.count("/") > 1
    return (f"{provider}/local" if WORD.fullmatch(provider) else "local") if is_folder else label


def public_encoder(signature: str | None) -> str | None:
    """BERTScore's hash string; an encoder that is a folder is known by the hash of its files.

    >>> public_encoder("mine_L6_no-idf_version=0.3.12 revision=sha256:0a1b tokens<=512")
    'local_L6_no-idf_version=0.3.12 revision=sha256:0a1b tokens<=512'
    """
    if signature is None or "revision=sha256:" not in signature:
        return signature
    return re.sub(r"^.*(?=_L\d+_(?:no-)?idf)", "local", signature)
