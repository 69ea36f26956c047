"""The real demo model: captured states, lm-eval's own numbers, batches, temperatures (cases 16-29)."""

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from toy_models import ask, byte_tokenizer, generation, toy

from tcb_bench.errors import ModelError
from tcb_bench.metrics.delta_tcb import QUANTITIES, reference
from tcb_bench.models.batching import Batcher
from tcb_bench.models.hf import HF

CHOICES = (" A", " B", " C", " D")
QUESTIONS = [
    "Which is a fruit?\nA. apple\nB. iron\nC. sea\nD. law\nAnswer:",
    "2+2?\nA. 3\nB. 4\nC. 5\nD. 22\nAnswer:",
    "The capital of France?\nA. Rome\nB. Oslo\nC. Paris\nD. Bonn\nAnswer:",
]
LETTERS = [ask("next_token", question, CHOICES) for question in QUESTIONS]


@pytest.fixture(scope="module")
def hflm(hf_demo):
    return HFLM(hf_demo.model, tokenizer=hf_demo.tokenizer, device="cpu", batch_size=4)


@pytest.fixture(scope="module")
def small():
    """A random model with texts of 8 tokens in milliseconds."""
    return HF(toy(spread=0.5), tokenizer=byte_tokenizer(), device="cpu")


def traced(lm, *pairs):
    """Generations for (prompt, gen_kwargs) pairs."""
    return lm.generate_traced([ask("generate_traced", *pair) for pair in pairs])


def test_probabilities_are_those_of_lm_evals_own_loglikelihood(hf_demo, hflm):
    answers = hf_demo.next_token(LETTERS)
    theirs = hflm.loglikelihood(
        [ask("loglikelihood", q, c) for q in QUESTIONS for c in CHOICES], disable_tqdm=True
    )
    for i, answer in enumerate(answers):
        expected = theirs[4 * i : 4 * i + 4]
        assert answer.choice_logprobs == pytest.approx([p for p, _ in expected], abs=1e-4)
        greedy = [answer.token == token for token in answer.choice_tokens]
        assert greedy == [is_greedy for _, is_greedy in expected]
        mass = sum(torch.tensor(answer.choice_logprobs).exp().tolist())
        assert answer.stability["choice_mass"] == pytest.approx(mass, rel=1e-4)


def test_tokens_shared_by_all_choices_only_shift_lm_evals_numbers(hf_demo, hflm):
    (answer,) = hf_demo.next_token([ask("next_token", "Rome or Oslo? ", CHOICES[:2])])
    pairs = [ask("loglikelihood", "Rome or Oslo? ", c) for c in CHOICES[:2]]
    (first, _), (second, _) = hflm.loglikelihood(pairs, disable_tqdm=True)
    difference = answer.choice_logprobs[0] - answer.choice_logprobs[1]
    assert difference == pytest.approx(first - second, abs=1e-4)


def test_lm_evals_own_requests_still_work_through_the_same_object(hf_demo, hflm):
    pair = ask("loglikelihood", QUESTIONS[0], " A")
    ours, theirs = (lm.loglikelihood([pair], disable_tqdm=True) for lm in (hf_demo, hflm))
    assert ours[0] == pytest.approx(theirs[0], abs=1e-4)
    rolling = ask("loglikelihood_rolling", "Paris is in France.")
    assert hf_demo.loglikelihood_rolling([rolling], disable_tqdm=True)[0] < -5
    until = ask("generate_until", "Paris is", {"until": ["\n"], "max_gen_toks": 4})
    (text,) = hf_demo.generate_until([until], disable_tqdm=True)
    (own,) = traced(hf_demo, ("Paris is", generation(until=["\n"], max_gen_toks=4)))
    assert text == own.text


def test_quantities_equal_the_oracle_on_the_models_own_last_hidden_state(hf_demo):
    (answer,) = hf_demo.next_token(LETTERS[:1])
    ids = torch.tensor([hf_demo.tokenizer(QUESTIONS[0])["input_ids"]])
    with torch.no_grad():
        h = hf_demo.model.model(ids).last_hidden_state[:, -1]
    delta, flip = reference(h, hf_demo.model.lm_head.weight)
    assert answer.stability["delta_tcb"] == pytest.approx(delta.item(), rel=1e-3)
    assert answer.stability["flip_radius"] == pytest.approx(flip.item(), rel=1e-3)
    assert set(answer.stability) == set(QUANTITIES)
    assert answer.prompt_tokens == ids.shape[1]


def test_an_answer_is_the_same_alone_in_a_batch_and_in_any_order(hf_demo):
    requests = [*LETTERS, ask("next_token", "Paris", ()), ask("next_token", "Rome is", ())]
    together = hf_demo.next_token(requests)
    shuffled = hf_demo.next_token([requests[i] for i in (3, 0, 4, 2, 1)])
    for i, place in enumerate((1, 4, 3, 0, 2)):
        (alone,) = hf_demo.next_token([requests[i]])
        for other in (alone, shuffled[place]):
            assert other.token == together[i].token
            assert other.stability == pytest.approx(together[i].stability, rel=1e-4, abs=1e-4)
            assert other.choice_logprobs == pytest.approx(together[i].choice_logprobs, abs=1e-4)


def test_choices_of_several_tokens_are_refused_by_name(hf_demo):
    with pytest.raises(ModelError, match="choice ' philosophical zebra' is"):
        hf_demo.next_token([ask("next_token", "x", (" A", " philosophical zebra"))])


def test_a_prompt_that_is_too_long_fails_alone_and_is_never_cut(small):
    long = "x" * 200
    answers = small.next_token([ask("next_token", text, ()) for text in ("ab", long)])
    assert answers[0].kind == "next_token"
    assert "200 tokens" in answers[1].reason
    assert "128" in answers[1].reason
    texts = traced(small, (long, generation()), ("x" * 125, generation()), ("ab", generation()))
    assert [t.kind for t in texts] == ["failure", "generation", "generation"]
    assert len(texts[1].tokens) == 3  # all the room there is, and said so
    assert texts[1].finish_reason == "length"


def test_responses_are_reported_as_soon_as_their_batch_is_done(small):
    seen = []
    small_batches = HF(small.model, tokenizer=small.tokenizer, device="cpu", batch_size=2)
    requests = [ask("next_token", "x" * n, ()) for n in (3, 9, 5, 7)]
    answers = small_batches.next_token(requests, on_response=lambda i, r: seen.append((i, r)))
    assert [i for i, _ in seen] == [1, 3, 2, 0]
    assert all(answers[i] == answer for i, answer in seen)


def test_memory_that_runs_out_halves_the_batch_and_changes_no_answer(small, monkeypatch):
    requests = [ask("next_token", "x" * n, ()) for n in range(1, 9)]
    expected = small.next_token(requests)
    engine, sizes = small._engine, []
    forward = type(engine).last_states

    def scarce(self, prompts):
        sizes.append(len(prompts))
        if len(prompts) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, prompts)

    monkeypatch.setattr(type(engine), "last_states", scarce)
    monkeypatch.setattr(small, "_batcher", Batcher(8))
    answers = small.next_token(requests)
    assert sizes[:3] == [8, 4, 2]
    for answer, same in zip(answers, expected, strict=True):
        assert answer.stability == pytest.approx(same.stability, rel=1e-4)


def test_a_chat_prompt_has_one_bos():
    tokenizer = byte_tokenizer(adds_bos=True)
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    lm = HF(toy(), tokenizer=tokenizer, device="cpu")
    chat = lm.apply_chat_template([{"role": "user", "content": "ab"}])
    with_template, without = lm.next_token([ask("next_token", t, ()) for t in (chat, "ab")])
    assert chat == "<s>ab"
    assert with_template.prompt_tokens == without.prompt_tokens == 3
    assert with_template.stability == pytest.approx(without.stability, rel=1e-5)


def test_float16_checkpoints_are_computed_in_float32_on_a_cpu(tmp_path):
    toy().half().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    lm = HF(str(tmp_path), device="cpu")
    assert lm.identity["dtype"] == "float32"
    assert lm.identity["model"] == str(tmp_path)
    assert HF(str(tmp_path), device="cpu", dtype="float16").identity["dtype"] == "float16"


def test_loading_and_asking_print_nothing(tmp_path, capfd):
    toy().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    capfd.readouterr()
    lm = HF(str(tmp_path), device="cpu")
    lm.next_token([ask("next_token", "ab", ())])
    traced(lm, ("ab", generation(temperature=1.0, seed=1)))
    assert capfd.readouterr() == ("", "")


def test_identity_and_info_are_json_and_say_what_was_loaded(hf_demo):
    import json

    assert json.loads(json.dumps(hf_demo.info)) == hf_demo.info
    expected = {
        "backend": "hf",
        "model": "demo",
        "dtype": "float32",
        "n_vocab": 49152,
        "revision": None,
    }
    assert hf_demo.identity.items() >= expected.items()
    assert hf_demo.identity["gguf_file"].endswith(".gguf")
    assert 1 < hf_demo.info["weight_radius"] < 100
    assert (hf_demo.temperature_effective, hf_demo.reuses_at_zero) == ("true", True)


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "mps"])
def test_a_device_that_is_not_here_is_refused_and_never_replaced(device):
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(ModelError, match=f"device '{device}' is"):
        HF(toy(), tokenizer=byte_tokenizer(), device=device)
