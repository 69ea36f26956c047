"""How many tokens a chat prompt has: by the model's own tokenizer where it can be read."""

from __future__ import annotations

import functools
import importlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.errors import UsageError, reason

BYTES_PER_TOKEN = 3.6
"""Below the 4 to 4.5 of English prose: numbers, names and other languages have fewer."""

PER_MESSAGE, PER_REPLY = 3, 3
"""What OpenAI's chat format adds: to each message, and once before the reply."""

TEMPLATE_PER_MESSAGE, TEMPLATE_ONCE = 12, 96
"""More than templates of known open models add: headers of a turn, a default system message."""

DOWNLOAD_S = 20.0
CACHED = 4096  # texts: a sweep asks the same prompt dozens of times, and few-shot turns recur

Messages = Sequence[Mapping[str, str]]


class Counter:
    """Counts tokens of texts and of chat prompts.

    Attributes:
        kind: where the counts come from: ``tiktoken o200k_base``, ``tokenizer NAME``, or
            ``estimate: UTF-8 bytes / 3.6`` with the reason in brackets.
    """

    def __init__(
        self,
        kind: str,
        count_text: Callable[[str], int],
        count_chat: Callable[[list[dict[str, str]]], int] | None = None,
        *,
        is_documented: bool = True,
    ) -> None:
        """A counter from what it counts with.

        Args:
            kind: as in the attribute.
            count_text: tokens of one text without special tokens.
            count_chat: tokens of messages with all that a chat template adds; None: the text of
                each, and OpenAI's overhead.
            is_documented: whether that overhead is the model's own; else ``bound`` adds more.
        """
        self.kind = kind
        self._is_documented = is_documented
        self._text = functools.lru_cache(maxsize=CACHED)(count_text)
        self._chat = functools.lru_cache(maxsize=CACHED)(_from_pairs(count_chat or self._sum))

    def count_text(self, text: str) -> int:
        """Tokens of one text, without special tokens."""
        return self._text(text)

    def count(self, messages: Messages) -> int:
        """Tokens of the prompt that these messages make, up to where the reply starts.

        Args:
            messages: each with ``role`` and ``content``; other keys are not counted.
        """
        return self._chat(tuple((turn["role"], turn["content"]) for turn in messages))

    def bound(self, messages: Messages) -> int:
        """Tokens that the prompt cannot exceed, for budgets.

        A token of a byte-level vocabulary is at least one byte of text, so it is the UTF-8 bytes
        and what the chat format adds; or the count, where that is larger.
        """
        each, once = PER_MESSAGE, PER_REPLY
        if not self._is_documented:
            each, once = TEMPLATE_PER_MESSAGE, TEMPLATE_ONCE
        texts = sum(_bytes(turn["role"]) + _bytes(turn["content"]) for turn in messages)
        return max(texts + each * len(messages) + once, self.count(messages))

    def _sum(self, messages: list[dict[str, str]]) -> int:
        texts = (text for turn in messages for text in (turn["role"], turn["content"]))
        return sum(map(self._text, texts)) + PER_MESSAGE * len(messages) + PER_REPLY


def counter(provider: str, model: str, tokenizer: str | None = None) -> Counter:
    """The best counter there is for a model.

    Args:
        provider: ``openai``, ``deepseek`` or ``compatible``.
        model: its name there.
        tokenizer: a tokenizer of transformers (a hub id, a folder, or a GGUF file) that is the
            model's own; it goes before anything else.

    Raises:
        UsageError: ``tokenizer`` cannot be read.
    """
    if tokenizer is not None:
        return _from_transformers(tokenizer)
    if provider != "openai":
        why = "the model's own tokenizer is not given"
        return _estimate(why, is_documented=False)
    return _from_tiktoken(model)


def _from_pairs(
    count: Callable[[list[dict[str, str]]], int],
) -> Callable[[tuple[tuple[str, str], ...]], int]:
    """The same over (role, content) pairs, which can be the key of a cache."""
    return lambda turns: count([{"role": role, "content": text} for role, text in turns])


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _estimate(why: str, *, is_documented: bool) -> Counter:
    kind = f"estimate: UTF-8 bytes / {BYTES_PER_TOKEN} ({why})"
    return Counter(
        kind, lambda text: math.ceil(_bytes(text) / BYTES_PER_TOKEN), is_documented=is_documented
    )


def _from_tiktoken(model: str) -> Counter:
    try:
        tiktoken = importlib.import_module("tiktoken")
        name = tiktoken.encoding_name_for_model(model)
    except ImportError:
        return _estimate("tiktoken is not installed", is_documented=True)
    except KeyError:
        return _estimate(f"tiktoken knows no vocabulary of {model}", is_documented=True)
    encoding = _in_time(lambda: tiktoken.get_encoding(name))
    if isinstance(encoding, str):
        return _estimate(f"tiktoken cannot read {name}: {encoding}", is_documented=True)
    return tiktoken_counter(encoding)


def tiktoken_counter(encoding: Any) -> Counter:
    """A counter from a ``tiktoken.Encoding``; special tokens in a text are text."""
    return Counter(f"tiktoken {encoding.name}", lambda text: len(encoding.encode_ordinary(text)))


def _in_time(load: Callable[[], Any]) -> Any:
    """What ``load`` returns, or why it failed, in words.

    The first time, tiktoken downloads a vocabulary without a time limit of its own, and a network
    that swallows packets is not to hold up an estimate.
    """
    found: list[Any] = [f"no answer in {DOWNLOAD_S:g} s"]

    def run() -> None:
        try:
            found.append(load())
        except (OSError, ValueError) as error:  # no network or no such file; a damaged download
            found.append(type(error).__name__)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(DOWNLOAD_S)
    return found[-1]


def _from_transformers(name: str) -> Counter:
    from transformers import AutoTokenizer

    path = Path(name)
    is_gguf = path.suffix == ".gguf"
    source, options = (path.parent, {"gguf_file": path.name}) if is_gguf else (name, {})
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UsageError(
            f"tokenizer {name} cannot be read ({reason(error)}); give the hub id, folder or GGUF "
            "file of the model's own tokenizer, or none for an estimate"
        ) from None
    label = path.name if path.exists() else name  # results hold no paths
    return transformers_counter(tokenizer, label)


def transformers_counter(tokenizer: Any, label: str) -> Counter:
    """A counter from a tokenizer of transformers, by its chat template where it has one."""

    def count_text(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def count_chat(messages: list[dict[str, str]]) -> int:
        from jinja2 import TemplateError

        try:
            ids = tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                return_dict=False,
                tokenizer_kwargs={"verbose": False},  # a long prompt is no reason to warn here
            )
        except TemplateError as error:  # such as: no system message, or two turns of one role
            roles = ", ".join(turn["role"] for turn in messages)
            raise UsageError(
                f"tokenizer {label}: its chat template refuses messages of {roles} "
                f"({reason(error)}); give the model's own tokenizer, or none for an estimate"
            ) from None
        return len(ids)

    if not tokenizer.chat_template:
        kind = f"tokenizer {label}, which has no chat template"
        return Counter(kind, count_text, is_documented=False)
    return Counter(f"tokenizer {label}", count_text, count_chat, is_documented=False)
