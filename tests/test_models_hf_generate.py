"""Traced texts of the engine: greedy and sampled, stop strings, stability (cases 16-18, 20, 21)."""

import pytest
import torch
from toy_models import ask, byte_tokenizer, generation, toy
from transformers import GenerationConfig

from tcb_bench.errors import UsageError
from tcb_bench.metrics.delta_tcb import reference
from tcb_bench.models.hf import HF

CHAT = "<|im_start|>user\nWrite two emoji.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def small():
    """A random model with texts of 8 tokens in milliseconds."""
    return HF(toy(spread=0.5), tokenizer=byte_tokenizer(), device="cpu")


def traced(lm, *pairs):
    """Generations for (prompt, gen_kwargs) pairs."""
    return lm.generate_traced([ask("generate_traced", *pair) for pair in pairs])


def test_greedy_text_is_that_of_transformers_generate(hf_demo):
    prompts = ["The capital of France is", CHAT]
    answers = traced(hf_demo, *((p, generation(max_gen_toks=10)) for p in prompts))
    for prompt, answer in zip(prompts, answers, strict=True):
        inputs = hf_demo.tokenizer(prompt, return_tensors="pt")
        config = GenerationConfig(
            do_sample=False, max_new_tokens=10, pad_token_id=2, eos_token_id=2
        )
        out = hf_demo.model.generate(**inputs, generation_config=config)
        new = out[0, inputs["input_ids"].shape[1] :].tolist()
        assert answer.tokens == new
        assert answer.text == hf_demo.tokenizer.decode(new, skip_special_tokens=True)


def test_stability_at_all_tokens_is_that_of_one_pass_over_the_finished_text(hf_demo):
    given = generation(max_gen_toks=8, temperature=1.0, seed=3, stability_at="all")
    (answer,) = traced(hf_demo, ("The sky is", given))
    prompt = hf_demo.tokenizer("The sky is")["input_ids"]
    ids = torch.tensor([prompt + answer.tokens])
    with torch.no_grad():
        h = hf_demo.model.model(ids).last_hidden_state[0]
    h = h[len(prompt) - 1 : -1]
    delta, flip = reference(h[:1], hf_demo.model.lm_head.weight)
    logprobs = torch.log_softmax((h @ hf_demo.model.lm_head.weight.T).double(), -1)
    nll = -logprobs.gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
    assert answer.positions == list(range(8))
    assert answer.rule == "all"
    assert answer.stability["delta_tcb"][:1] == pytest.approx(delta.tolist(), rel=1e-3)
    assert answer.stability["flip_radius"][:1] == pytest.approx(flip.tolist(), rel=1e-3)
    assert answer.stability["nll"] == pytest.approx(nll.tolist(), abs=1e-3)


def test_quantities_do_not_depend_on_the_temperature(hf_demo):
    given = [generation(max_gen_toks=1, stability_at="all")]
    given += [
        generation(max_gen_toks=1, stability_at="all", temperature=1.8, seed=s) for s in (1, 2)
    ]
    (at_zero, *hot) = traced(hf_demo, *(("The sky is", kwargs) for kwargs in given))
    for answer in hot:
        for name, values in at_zero.stability.items():
            if name != "nll" or answer.tokens == at_zero.tokens:
                assert answer.stability[name] == pytest.approx(values, rel=1e-5), name


def test_a_critical_token_has_the_values_of_the_whole_trace(hf_demo):
    prompt = "3 + 4 = 7. 5 + 5 = 10. 9 + 9 ="
    rules = ["all", "final_number", "first", "last", "none"]
    given = [generation(max_gen_toks=6, stability_at=rule) for rule in rules]
    whole, *single, none = traced(hf_demo, *((prompt, kwargs) for kwargs in given))
    assert (none.stability, none.positions, none.rule) == ({}, [], "none")
    assert [answer.rule for answer in single] == ["final_number/1", "first/1", "last/1"]
    for answer in single:
        (position,) = answer.positions
        expected = {name: column[position] for name, column in whole.stability.items()}
        found = {name: column[0] for name, column in answer.stability.items()}
        assert found == pytest.approx(expected, rel=1e-4)


def test_sampled_texts_do_not_depend_on_their_batch(hf_demo):
    temperatures = [0.0, 0.6, 1.0, 1.6]
    pairs = [
        (prompt, generation(max_gen_toks=6, temperature=t, seed=5 if t else None))
        for prompt in ("Once upon a time", "I")
        for t in temperatures
    ]
    together = traced(hf_demo, *pairs)
    assert len({answer.text for answer in together}) > 5
    for i in (0, 2, 7):
        assert traced(hf_demo, pairs[i]) == [together[i]]
    assert traced(hf_demo, *reversed(pairs))[::-1] == together


def test_three_seeds_give_three_texts_and_one_seed_one_text(small):
    seeds = [1, 2, 3, 1]
    texts = [
        a.text for a in traced(small, *(("ab", generation(temperature=1.0, seed=s)) for s in seeds))
    ]
    assert len(set(texts)) == 3
    assert texts[0] == texts[3]


def test_every_temperature_of_the_sweep_works_in_one_batch(small):
    sweep = [generation(temperature=i / 5, seed=9 if i else None) for i in range(11)]
    answers = traced(small, *(("ab", kwargs) for kwargs in sweep))
    assert [answer.kind for answer in answers] == ["generation"] * 11
    assert len({answer.text for answer in answers}) > 5


def test_the_models_generation_config_does_not_slip_in(small):
    pairs = [("ab", generation(temperature=1.0, seed=s)) for s in range(4)] + [("ab", generation())]
    expected = traced(small, *pairs)
    own = small.model.generation_config
    small.model.generation_config = GenerationConfig(
        do_sample=True, top_k=1, temperature=0.1, repetition_penalty=9.0, min_new_tokens=7,
        suppress_tokens=[5, 6], forced_eos_token_id=1, no_repeat_ngram_size=1, eos_token_id=[1, 2],
    )  # fmt: skip
    try:
        assert traced(small, *pairs) == expected
        asked = {"temperature": 0.1, "top_k": 1, "top_p": 1.0, "repetition_penalty": 9.0}
        assert small.model_sampling == asked
        small.model.generation_config = GenerationConfig(do_sample=True, top_p=0.9)
        silent = {"temperature": 1.0, "top_k": 50, "top_p": 0.9}  # what transformers falls back to
        assert small.model_sampling == silent
    finally:
        small.model.generation_config = own


def test_every_end_of_sequence_token_of_the_generation_config_ends_a_text():
    model = toy(spread=0.5)
    free = HF(model, tokenizer=byte_tokenizer(), device="cpu")
    (text,) = traced(free, ("ab", generation()))
    model.generation_config.eos_token_id = [1, text.tokens[2]]
    bound = HF(model, tokenizer=byte_tokenizer(), device="cpu")
    (short,) = traced(bound, ("ab", generation(stability_at="all")))
    assert short.tokens == text.tokens[:3]
    assert short.finish_reason == "stop"
    assert short.offsets[-1] == [len(short.text)] * 2
    assert len(short.stability["nll"]) == 3


def test_stop_strings_end_rows_one_by_one(small):
    (free,) = traced(small, ("ab", generation(max_gen_toks=12)))
    stop = free.text[3:5]
    stopped, other = traced(
        small,
        ("ab", generation(until=[stop], max_gen_toks=12)),
        ("ab", generation(max_gen_toks=12)),
    )
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert other == free
    assert free.finish_reason == "length"


def test_texts_of_emoji_have_offsets_that_put_them_together_again(hf_demo):
    (answer,) = traced(hf_demo, (CHAT, generation(max_gen_toks=12, stability_at="all")))
    spans = sorted({tuple(span) for span in answer.offsets})
    assert "".join(answer.text[a:b] for a, b in spans) == answer.text
    assert len(answer.offsets) == len(answer.tokens) == len(answer.stability["nll"])
    assert any(ord(character) > 0xFFFF for character in answer.text)


def test_unknown_parameters_are_refused(small):
    with pytest.raises(UsageError, match="temperatur"):
        traced(small, ("ab", {**generation(), "temperatur": 1}))


def test_a_prompt_that_is_asked_many_times_is_computed_once_and_answered_alike(
    hf_demo, monkeypatch
):
    """Oracle: the same requests with every prompt computed for itself."""
    texts = ["The capital of France is", "Water boils at", "The capital of France is"]
    wanted = [
        (text, generation(temperature=t, seed=seed, max_gen_toks=6, stability_at="all"))
        for text in texts
        for t, seed in ((0.0, None), (0.9, 1), (0.9, 2))
    ]
    shared = []
    original = type(hf_demo._engine).shared_cache

    def noted(engine, prompts):
        found = original(engine, prompts)
        shared.append((len(set(map(tuple, prompts))), len(prompts), bool(found)))
        return found

    monkeypatch.setattr(type(hf_demo._engine), "shared_cache", noted)
    together = traced(hf_demo, *wanted)
    assert shared == [(2, 9, True)]
    monkeypatch.setattr(type(hf_demo._engine), "shared_cache", lambda engine, prompts: {})
    alone = traced(hf_demo, *wanted)
    for a, b in zip(together, alone, strict=True):
        assert (a.text, a.tokens, a.positions) == (b.text, b.tokens, b.positions)
        for name, column in a.stability.items():
            assert column == pytest.approx(b.stability[name], rel=1e-3, abs=1e-5)
