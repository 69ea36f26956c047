"""lm-eval's ``key=value,key=value`` model arguments, read without its traps."""

from __future__ import annotations

import json
import re
from typing import Any

from tcb_bench.errors import UsageError

TEXT_KEYS = frozenset(
    "pretrained revision tokenizer gguf_file subfolder peft delta dtype device "
    "attn_implementation token api_key api_key_env base_url model".split()
)
"""Arguments that are names: a model called 1234 or none is no number and not None."""

SECRET = re.compile(
    r"keys?$|(?<!think_end_)(?<!bos_)(?<!batched_)tokens?$|secret|password", re.IGNORECASE
)
"""Names of arguments whose values reach no file, log or message."""

_OPEN, _CLOSE = "([{", ")]}"


def parse_model_args(text: str | None) -> dict[str, Any]:
    """The arguments of ``--model_args`` as a dict.

    Values may hold ``=``; commas inside brackets or a quoted value do not separate. Values of
    ``TEXT_KEYS`` and quoted ones stay texts; others become bool, None, int, float, or (where they
    begin with a bracket and are JSON) lists and dicts, else texts. A whole JSON object works too.

    Raises:
        UsageError: an argument without ``=`` or name, one given twice, an unclosed bracket or
            quote. Values are never part of the message, since one of them may be a key.

    >>> parse_model_args("pretrained=1234,trust_remote_code=True,max_length=512")
    {'pretrained': '1234', 'trust_remote_code': True, 'max_length': 512}
    """
    text = (text or "").strip()
    if text.startswith("{"):
        return _from_json(text)
    arguments: dict[str, Any] = {}
    for number, part in enumerate(split_arguments(text, "--model_args"), start=1):
        key, sep, value = (piece.strip() for piece in part.partition("="))
        if not sep or not key.isidentifier():
            raise UsageError(
                f"argument {number} of --model_args is not name=value: "
                "write pretrained=org/name,revision=main (a comma inside a value needs quotes)"
            )
        if key in arguments:
            raise UsageError(f"--model_args gives {key} twice; give it once")
        arguments[key] = _value(key, value)
    return arguments


def _from_json(text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"--model_args gives {twice[0]} twice; give it once")
        return dict(pairs)

    try:
        found: dict[str, Any] = json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise UsageError(
            "--model_args begins with { but is no JSON object "
            f"(column {getattr(error, 'colno', 1)}); write name=value,name=value"
        ) from None
    return {k: str(v) if k in TEXT_KEYS and isinstance(v, int) else v for k, v in found.items()}


def split_arguments(text: str, option: str) -> list[str]:
    """Pieces between the commas that separate arguments; empty pieces are left out."""
    pieces, start, depth, quote, before = [], 0, 0, "", ","
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and (before == "=" or depth):  # an apostrophe inside a path is none
            quote = char
        elif char in _OPEN or char in _CLOSE:
            depth += 1 if char in _OPEN else -1
        elif char == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
        before = before if char.isspace() else char
    if depth or quote:
        raise UsageError(
            f"{option} has an unclosed bracket or quote; put a value that holds one in quotes"
        )
    return [piece for piece in [*pieces, text[start:]] if piece.strip()]


def _value(key: str, text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if key in TEXT_KEYS:
        return text
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return _scalar(text)


def _scalar(text: str) -> Any:
    """As lm-eval reads it: booleans and none in any case, then int, then float, else the text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        if "_" in text:  # "1_000" is a name, not a number
            break
        try:
            return kind(text)
        except ValueError:
            continue
    return text
