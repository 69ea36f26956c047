"""A finished row as a generation whose stability is still to be measured, for every back end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tcb_bench.models.positions import critical_token, rule_version
from tcb_bench.models.text import RowText, StopRule
from tcb_bench.responses import Generation


def stop_rule(
    tokenizer: Any, until: Sequence[str], eos: Iterable[int], think_end: int | str | None
) -> StopRule:
    """When a row ends, with what never shows in a text looked for among the tokens.

    Args:
        tokenizer: a transformers tokenizer.
        until: stop strings.
        eos: ids that end a text.
        think_end: lm-eval's ``think_end_token``; an empty text means none, as there.
    """
    special = {stop: token for stop in until if (token := _special(tokenizer, stop)) is not None}
    strings = tuple(stop for stop in until if stop not in special)
    if isinstance(think_end, str):
        token = _special(tokenizer, think_end)
        think_end = (think_end or None) if token is None else token
    return StopRule(frozenset((*eos, *special.values())), strings, think_end)


def _special(tokenizer: Any, text: str) -> int | None:
    """Id of the token that ``text`` is and that decoding leaves out, else None.

    Tokenizers mark more tokens as special than ``all_special_tokens`` lists (Llama 3's
    ``<|eot_id|>``), so decoding is asked.
    """
    token = tokenizer.convert_tokens_to_ids(text)
    if token is None or tokenizer.convert_ids_to_tokens(token) != text:
        return None  # another text would be the unknown token
    shown, hidden = (tokenizer.decode([token], skip_special_tokens=s) for s in (False, True))
    return int(token) if shown and not hidden else None


def draft(prompt_tokens: int, row: RowText, rule: str) -> Generation:
    """The text of a row, and the positions whose stability is wanted; ``stability`` is empty.

    Args:
        prompt_tokens: number of prompt tokens the model saw.
        row: a row that has ended, or has all the tokens it gets.
        rule: ``all``, ``none``, or a name in ``positions.RULES``, which sees the answer part.

    Raises:
        UnknownName: there is no such rule.
    """
    text, tokens, offsets = row.result()
    if rule == "all":
        positions = list(range(len(tokens)))
    elif rule == "none":
        positions = []
    else:
        token = critical_token(rule, text, offsets, start=row.answer_start)
        positions = [] if token is None else [token]
        rule = rule_version(rule)
    return Generation(
        text=text,
        tokens=tokens,
        offsets=offsets,
        finish_reason="stop" if row.is_done else "length",
        prompt_tokens=prompt_tokens,
        positions=positions,
        rule=rule,
        answer_start=row.answer_start,
    )
