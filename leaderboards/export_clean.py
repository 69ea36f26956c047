"""A result without anything of this machine: folders by their last name, secrets removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from tcb_bench.leaderboards.submit_names import LOCAL

REMOVED = "[removed]"
PATH = re.compile(
    r"(?<![\w./\\~])(?:file:/{2,3}|~(?=[/\\])|[A-Za-z]:(?=[/\\]))?[/\\][^\s,;|'\"=<>]+"
)
SECRET = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_\w{16,}|gh[opsu]_\w{20,}|AKIA[A-Z0-9]{16})\b"
    r"|(?<=Bearer )\S+|(?<=://)[^\s/@]+(?=@)"
    r"|(?<=key=)[^\s,|&]+|(?<=token=)[^\s,|&]+|(?<=password=)[^\s,|&]+|(?<=secret=)[^\s,|&]+"
)
SECRET_KEYS = frozenset({"api_key", "token", "hf_token", "auth_token", "password", "secret"})
TEXTS = frozenset(
    {
        *("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix", "until"),
        *("target_delimiter", "fewshot_delimiter", "system_instruction", "chat_template", "ids"),
    }
)
"""Keys whose values are what was asked, word for word; they stay as they are."""


def model_name(label: str) -> str:
    """What a model is called where no public id is asked for: a folder by its last name.

    >>> [model_name(x) for x in ("demo", "hf/org/name@main", "vllm//data/ckpt-5", "openai/gpt-4o")]
    ['demo', 'org/name', 'ckpt-5', 'openai/gpt-4o']
    """
    provider, _, rest = label.partition("/")
    if not rest:
        return label
    if LOCAL.match(rest) or (provider in ("hf", "vllm") and rest.count("/") > 1):
        return PurePath(rest.replace("\\", "/")).name.strip(".") or "local"
    return rest.split("@")[0] if provider in ("hf", "vllm") else label


def cleaned(value: Any, label: str, name: str) -> Any:
    """JSON with the model's label as ``name``, paths as their last part, and no secret.

    Args:
        value: any JSON; texts under ``TEXTS`` are left as they are.
        label: how the run names the model; with a path in it, it is replaced wherever it stands.
        name: what it is called instead.

    >>> cleaned(["hf//me/x", "see /home/me/x.txt", "https://a.org/b/c"], "hf//me/x", "x")
    ['x', 'see x.txt', 'https://a.org/b/c']
    """
    if isinstance(value, Mapping):
        return {
            key: item
            if key in TEXTS
            else REMOVED
            if key.lower() in SECRET_KEYS and isinstance(item, str)
            else cleaned(item, label, name)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [cleaned(item, label, name) for item in value]
    return _text(value, label, name) if isinstance(value, str) else value


def _text(text: str, label: str, name: str) -> str:
    if text == label:
        return name
    tail = label.partition("/")[2]
    text = text.replace(f"|model:{label}|", f"|model:{name}|")
    if LOCAL.match(tail):  # a folder's name may hold spaces, where PATH would stop
        for given in (label, tail.split("@")[0]):
            text = re.sub(rf"(?<![\w./\\]){re.escape(given)}(?![\w./\\-])", lambda _: name, text)
    return SECRET.sub(REMOVED, PATH.sub(_last_name, text))


def _last_name(found: re.Match[str]) -> str:
    """The last part of a path; what has one part only, such as ``/5``, is no path of a machine."""
    path = found[0]
    is_home = path[0] == "~" or path.startswith("file:") or path[1:2] == ":"
    parts = [part for part in re.split(r"[/\\]", path) if part]
    if path.startswith("//") or (len(parts) < 2 and not is_home):
        return path
    return parts[-1]
