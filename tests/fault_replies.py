"""What the played model answers when nothing goes wrong: a function of the request alone.

``answer(body, index)`` is the text of choice ``index`` before stop sequences and token limits;
``completion(body, played)`` is the whole reply. Both depend on model, messages, seed, temperature
and index only, so that a test computes what each (sample, condition, repeat) must have got:

    answer({"model": "gpt-4o", "messages": messages, "seed": 7, "temperature": 0.2}, index=2)

One token is one word with the white space before it (two where a character is split).
"""

import hashlib
import json
import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

LETTERS = ("A", "B", "C", "D")
WORDS = tuple(
    "river stone seven cloud paper north garden copper winter signal harbour candle orbit meadow "
    "silver engine café naïve straße 東京 маяк 🙂 lantern ribbon quartz thistle voyage ember".split()
)
SMALLEST, LARGEST = 5, 24  # words in an answer
FINGERPRINT = "fp_5e1f0a2b"


def answer(body, index=0):
    """5 to 24 words drawn from WORDS; the default text of a choice."""
    dice = random.Random(f"{identity(body)}/{index}")
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(SMALLEST, LARGEST)))


def letter(body, index=0):
    """One of A, B, C, D: an ``answer`` for multiple choice; every letter is in the top 20."""
    return random.Random(f"{identity(body)}/{index}").choice(LETTERS)


@dataclass(frozen=True, kw_only=True)
class Played:
    """What the played model is like; each field is an option of ``fault_server``.

    Attributes:
        answer: (body, choice index) -> text; ``answer`` above, or ``letter``, or your own.
        style: ``openai``, or ``deepseek`` (its usage fields; reasoning is shown).
        ignores_temperature: the text does not depend on the temperature, which is accepted.
        shuffles_choices: with ``n`` > 1 the choices come in another order than their indices.
        splits_characters: the bytes of one emoji are two tokens, each shown as ``\\xf0\\x9f``.
        reasoning_tokens: written before each answer, counted by the token limit and in usage.
        cached_tokens: of the prompt, reported as read from a cache (at most all of it).
        delay_s: time each good reply takes.
        models: names that ``GET /v1/models`` lists; any name is served.
    """

    answer: Callable[[dict, int], str] = answer
    style: str = "openai"
    ignores_temperature: bool = False
    shuffles_choices: bool = False
    splits_characters: bool = False
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    delay_s: float = 0.0
    models: tuple[str, ...] = ("gpt-4o-mini", "gpt-3.5-turbo")

    def __post_init__(self):
        if self.style not in ("openai", "deepseek"):
            raise ValueError(f"style must be openai or deepseek, got {self.style!r}")

    def read(self, body):
        """The body as the model sees it."""
        hidden = ("temperature",) if self.ignores_temperature else ()
        return {field: value for field, value in body.items() if field not in hidden}


def identity(body):
    """Hash of what the text depends on; no temperature counts as the default, 1."""
    temperature, seed = body.get("temperature"), body.get("seed")
    seen = [body.get("model"), body.get("messages"), seed]
    seen.append(1.0 if temperature is None else float(temperature))
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def token_bytes(text, *, splits_characters=False):
    """The tokens of a text, as bytes; they join to it."""
    tokens = [word.encode() for word in re.findall(r"\s*\S+|\s+\Z", text)]
    if not splits_characters:
        return tokens
    return [part for token in tokens for part in _halves(token)]


def _halves(token):
    at = token.find("🙂".encode())
    return [token] if at < 0 else [token[: at + 2], token[at + 2 :]]


def shown(token):
    """A token as the API writes it: its text, or escapes where it is no whole character."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in token)


def distribution(body, tokens, index, position):
    """The 24 most probable (token, log-probability), falling; ``tokens[position]`` is among them.

    It comes first at temperature 0 and mostly else. The probabilities sum to 0.9 to 0.999.
    """
    token = tokens[position]
    dice = random.Random(f"{identity(body)}/{index}/{position}")
    space = "" if position == 0 else " "
    others = [f"{space}{letter}".encode() for letter in LETTERS]
    words = [f"{space}{word}".encode() for word in WORDS]
    others += dice.sample(words, len(words))
    others = [other for other in others if other != token]
    near, far = others[:19], others[19:23]  # the letters stay in the top 20
    dice.shuffle(near)
    others = near + far
    rank = 0 if body.get("temperature") == 0 or dice.random() < 0.8 else dice.randint(1, 3)
    others.insert(rank, token)
    ratio, mass = dice.uniform(0.3, 0.9), dice.uniform(0.9, 0.999)
    first = math.log(mass * (1 - ratio) / (1 - ratio ** len(others)))
    return [(other, first + place * math.log(ratio)) for place, other in enumerate(others)]


def token_logprobs(body, tokens, index):
    """``logprobs`` of a choice, as the API gives them for ``body``, or None when not asked for."""
    if not body.get("logprobs"):
        return None
    content = []
    for position, token in enumerate(tokens):
        ranked = distribution(body, tokens, index, position)
        top = [_entry(*pair) for pair in ranked[: body.get("top_logprobs") or 0]]
        content.append({**_entry(token, dict(ranked)[token]), "top_logprobs": top})
    return {"content": content, "refusal": None}


def _entry(token, logprob):
    return {"token": shown(token), "logprob": logprob, "bytes": list(token)}


def choice(body, index, played):
    """(choice record, completion tokens) after stop sequences and the token limit."""
    text = played.answer(body, index)
    stops = body.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    text = text[: min([at for at in map(text.find, stops) if at >= 0], default=len(text))]
    tokens = token_bytes(text, splits_characters=played.splits_characters)
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    limit = 10**9 if limit is None else limit
    thought, room = min(played.reasoning_tokens, limit), max(0, limit - played.reasoning_tokens)
    reason = "stop" if len(tokens) <= room else "length"
    kept = tokens[:room]
    message = {"role": "assistant", "content": b"".join(kept).decode(errors="ignore")}
    if played.style == "deepseek" and played.reasoning_tokens:
        message["reasoning_content"] = " ".join(["hmm"] * thought)
    if played.style == "openai":
        message.update(refusal=None, annotations=[])
    record = {"index": index, "message": message, "finish_reason": reason}
    record["logprobs"] = token_logprobs(body, kept, index)
    return record, len(kept) + thought


def prompt_tokens(body):
    """Words of all messages and four for each."""
    messages = body.get("messages") or []
    return sum(4 + len(text_of([message]).split()) for message in messages)


def text_of(messages):
    """The texts of all messages, one a line; content may be a text or a list of parts."""
    texts = []
    for message in messages:
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        texts.append(" ".join(part.get("text", "") for part in parts))
    return "\n".join(texts)


def usage(body, played, completed):
    """``usage`` for ``completed`` tokens of all choices, reasoning included."""
    prompt = prompt_tokens(body)
    cached = min(played.cached_tokens, prompt)
    record = {"prompt_tokens": prompt, "completion_tokens": completed}
    record["total_tokens"] = prompt + completed
    record["prompt_tokens_details"] = {"cached_tokens": cached}
    thought = min(completed, played.reasoning_tokens * (body.get("n") or 1))
    if played.style == "deepseek":
        record.update(prompt_cache_hit_tokens=cached, prompt_cache_miss_tokens=prompt - cached)
    if played.style == "openai" or thought:
        record["completion_tokens_details"] = {"reasoning_tokens": thought}
    return record


def completion(body, played, number=1):
    """The whole good reply to ``body``, as JSON types; ``number`` goes into its id."""
    body = played.read(body)
    made = [choice(body, index, played) for index in range(body.get("n") or 1)]
    choices = [record for record, _ in made]
    if played.shuffles_choices:
        choices = choices[1:] + choices[:1]
    return {
        "id": f"chatcmpl-{number:08d}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": usage(body, played, sum(tokens for _, tokens in made)),
    }
