"""Paraphrases by any seq2seq or causal transformers model, kept only where the facts survive."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.errors import ModelError, reason
from tcb_bench.models.resolve import demo_files
from tcb_bench.perturb.item import Change
from tcb_bench.perturb.survival import lost
from tcb_bench.perturb.tokens import words as words_of

if TYPE_CHECKING:
    from tcb_bench.perturb.tools import Tools

INSTRUCTION = (
    "Say the following text in other words. Keep its meaning and every number, name and negation. "
    "Give the new text only, on one line."
)
SEQ2SEQ_PREFIXES = {"t5": "paraphrase: ", "mt5": "paraphrase: ", "umt5": "paraphrase: "}
"""Model type -> what its paraphrasers are trained to see before the text; others see the text."""

LONGEST = 256  # new tokens at most
TEMPERATURE, TOP_P = 0.7, 0.95
SEED_BITS = 32
QUOTES = ('""', "''", "“”", "‘’")


@dataclass(frozen=True, slots=True)
class Paraphraser:
    """A loaded model that says texts in other words; one text at a time, so batching is no matter.

    Attributes:
        name: the model as the user named it.
        model: a transformers model with ``generate``.
        tokenizer: its tokenizer.
        version: name and digest of the weights, for a run's signature.
    """

    name: str
    model: Any
    tokenizer: Any
    version: str

    def paraphrase(
        self, texts: Sequence[str], seeds: Sequence[int], *, max_new_tokens: int = LONGEST
    ) -> list[str]:
        """One sampled paraphrase for each text; "" where the model did not come to an end.

        Args:
            texts: what to say in other words.
            seeds: one for each text, >= 0: the same text and seed give the same paraphrase on one
                machine.
            max_new_tokens: tokens of a paraphrase at most, its end token included.

        The first line of the answer counts, without white space or quotes around it. The global
        random state is afterwards what it was before.
        """
        pairs = zip(texts, seeds, strict=True)
        return [self._one(text, seed, max_new_tokens) for text, seed in pairs]

    def _one(self, text: str, seed: int, max_new_tokens: int) -> str:
        import torch

        device = self.model.device
        inputs = {name: ids.to(device) for name, ids in self._inputs(text).items()}
        sampling = self._sampling(max_new_tokens)
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
            torch.manual_seed(seed)
            output = self.model.generate(**inputs, generation_config=sampling)[0].tolist()
        start = 0 if self.model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        if output[-1] not in sampling.eos_token_id:
            return ""
        return _first_line(self.tokenizer.decode(output[start:], skip_special_tokens=True))

    def _inputs(self, text: str) -> dict[str, Any]:
        """Token ids and mask, (1, T) each, of what the model is asked."""
        kind, is_chat = self.model.config, bool(self.tokenizer.chat_template)
        prompt = f"{INSTRUCTION}\n\n{text}"
        if kind.is_encoder_decoder:
            prompt, is_chat = SEQ2SEQ_PREFIXES.get(kind.model_type, "") + text, False
        elif is_chat:
            turns = [{"role": "user", "content": prompt}]
            prompt = self.tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, tokenize=False
            )
        else:
            prompt = f"{prompt}\n\nIn other words:"
        # A chat template writes the special tokens itself: adding them would double BOS.
        found = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=not is_chat)
        return {name: found[name] for name in ("input_ids", "attention_mask")}

    def _sampling(self, max_new_tokens: int) -> Any:
        """Everything explicit: a checkpoint's generation_config.json must not add to it."""
        from transformers import GenerationConfig

        given = self.model.generation_config
        ends = _ends(given.eos_token_id, self.tokenizer.eos_token_id)
        return GenerationConfig(
            do_sample=True,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            top_k=0,
            repetition_penalty=1.0,
            max_new_tokens=max_new_tokens,
            eos_token_id=ends,
            pad_token_id=ends[0],  # one text at a time: nothing is padded
            decoder_start_token_id=given.decoder_start_token_id,
            forced_bos_token_id=given.forced_bos_token_id,
        )


def load(model: str, device: str | None = None) -> Paraphraser:
    """A paraphraser from a seq2seq or causal transformers model; its config tells which it is.

    Args:
        model: a hub id or folder, with or without ``hf/`` before it, or ``demo``.
        device: ``cuda``, ``cpu``, ...; None = cuda where there is one.

    Raises:
        ModelError: it is not there or cannot be loaded, in one line.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    from tcb_bench.models.hf_identity import weights_digest

    source, options = model.removeprefix("hf/"), {}
    if model == "demo":
        folder, file = demo_files()
        source, options = str(folder), {"gguf_file": file}
    try:
        config = AutoConfig.from_pretrained(source, **options)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        loaded = kind.from_pretrained(source, dtype="float32", **options).eval()
    except Exception as error:  # a checkpoint's own code and a dozen libraries may raise anything
        what = f"{type(error).__name__}: {reason(error)}"
        raise ModelError(
            f"paraphraser {model} cannot be loaded ({what}); "
            "give a hub id or folder of a seq2seq or causal transformers model, or demo"
        ) from error
    loaded.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    folder = Path(model.removeprefix("hf/"))
    name = folder.name if folder.is_dir() else model  # a run says no path of its machine
    return Paraphraser(model, loaded, tokenizer, f"{name} {weights_digest(loaded)}")


def paraphrase(text: str, rng: random.Random, tools: Tools, _argument: None = None) -> Change[str]:
    """A sampled paraphrase of ``text``, kept only where its numbers, negations and names survive.

    Kept, it is flagged ``unverified``: no rule can tell that the meaning survived as well.
    Otherwise the text stays (flag ``rejected``), and counts say why: ``rejected_empty`` (nothing,
    or no end within ``LONGEST`` tokens), ``rejected_same`` (the same words in the same order),
    ``rejected_number``, ``rejected_negation``, ``rejected_name``, ``rejected_question`` (see
    ``survival.lost``; all that hold). ``unchanged`` where the text has no word; the model is not
    asked then. Source: BC C.4.3.
    """
    before = _spoken(text)
    if not before:
        return Change(text, ("unchanged",))
    [new] = tools.paraphraser().paraphrase([text], [rng.getrandbits(SEED_BITS)])
    after = _spoken(new)
    if not after:
        reasons: tuple[str, ...] = ("empty",)
    elif after == before:
        reasons = ("same",)
    else:
        reasons = lost(text, new)
    if reasons:
        return Change(text, ("rejected",), {f"rejected_{name}": 1 for name in reasons})
    return Change(new, ("unverified",))


def _spoken(text: str) -> list[str]:
    return [word.text.lower() for word in words_of(text)]


def _ends(given: int | list[int] | None, of_tokenizer: int | None) -> list[int]:
    """Token ids that end an answer: the checkpoint's and the tokenizer's."""
    listed = given if isinstance(given, list) else [given]
    ends = [end for end in (*listed, of_tokenizer) if end is not None]
    if not ends:
        raise ModelError("the paraphraser has no end token, so that no answer of it would end")
    return list(dict.fromkeys(ends))


def _first_line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "").strip()
    return line[1:-1].strip() if line[:1] + line[-1:] in QUOTES else line
