"""The oracle of the vLLM tests: transformers in float32, fed with what the engine generated."""

import itertools
from dataclasses import replace

import torch
from toy_models import ask, generation

from tcb_bench.metrics.delta_tcb import QUANTITIES, reference, token_stability
from tcb_bench.responses import Generation, NextToken

EXACT = ("top1_token", "flip_token")
TOPICS = ["rivers", "bread", "the moon", "chess", "iron", "a small town", "bees", "winter"]
STARTS = [
    "Write about {}:",
    "The best thing about {} is",
    "Question: what is known about {}?\nAnswer:",
    "List three facts on {}.\n1.",
    "def {}(x):\n    return",
    "{}, {}, {},",
    "Here is a long story. It begins with {} and it goes on for many years, as stories of this "
    "kind do, with rain and sun, with friends and foes, until one day",
    "2 + 2 = 4, 3 + 3 = 6, 4 + 4 =",
]

LETTERS = (" A", " B", " C", " D")
SUMS = "{} + {} is\nA. {}\nB. 7\nC. 9\nD. 1\nAnswer:"
QUESTIONS = [
    ask("next_token", SUMS.format(a, b, a + b), LETTERS)
    for a, b in itertools.product(range(5), range(5))
]


def mixed_prompts():
    """64 prompts of 3 to 40 tokens; eight starts with eight topics, so that prefixes are shared."""
    return [start.replace("{}", topic) for start in STARTS for topic in TOPICS]


def traced(prompts, temperatures=(0.0, 1.0), repeats=3, tokens=4):
    """generate_traced requests, each prompt with every temperature and repeat."""
    return [
        ask(
            "generate_traced",
            prompt,
            generation(
                temperature=t, seed=k if t else None, max_gen_toks=tokens, stability_at="all"
            ),
        )
        for prompt in prompts
        for t in temperatures
        for k in range(repeats)
    ]


@torch.no_grad()
def true_states(model, sequences, width=32):
    """Per sequence the (T, d) states that transformers' own head receives."""
    seen = {}
    distinct = sorted(set(map(tuple, sequences)), key=len)
    for start in range(0, len(distinct), width):
        part = distinct[start : start + width]
        ids = torch.zeros(len(part), len(part[-1]), dtype=torch.long)
        for row, sequence in enumerate(part):  # padded behind: a causal model sees none of it
            ids[row, : len(sequence)] = torch.tensor(sequence)
        states = model.base_model(ids, use_cache=False).last_hidden_state
        seen |= {s: states[row, : len(s)] for row, s in enumerate(part)}
    return [seen[tuple(sequence)] for sequence in sequences]


def oracle(model, prompts, tokens, *, softcap=None, n_vocab=None):
    """(states, float64 quantities) of the tokens behind each prompt, all in a row.

    Args:
        model: the transformers model in float32.
        prompts, tokens: ids of each prompt and of what was generated behind it.
    """
    pairs = list(zip(prompts, tokens, strict=True))
    states = true_states(model, [[*p, *t] for p, t in pairs])
    hidden = torch.cat(
        [s[len(p) - 1 : len(p) - 1 + len(t)] for s, (p, t) in zip(states, pairs, strict=True)]
    )
    ids = torch.tensor([token for _, row in pairs for token in row])
    once, place = torch.cat([hidden, ids[:, None]], 1).unique(dim=0, return_inverse=True)
    weight = model.get_output_embeddings().weight.double()
    head = {"softcap": softcap, "n_vocab": n_vocab}
    truth = token_stability(once[:, :-1].double(), weight, tokens=once[:, -1].long(), **head)
    columns = {name: getattr(truth, name) for name in QUANTITIES}
    every = {name: v if v is None else v[place] for name, v in columns.items()}
    return hidden, replace(truth, **every)


def assert_quantities(answers, truth, *, rel=2e-4):
    """Every quantity of every token of the generations equals the oracle's, row by row."""
    for name in QUANTITIES:
        expected = getattr(truth, name)
        if expected is None:
            continue
        ours = torch.tensor([x for a in answers for x in a.stability[name]], dtype=torch.float64)
        assert len(ours) == len(expected), name
        if name in EXACT:  # a tie of two logits within rounding may fall either way
            clear = truth.logit_margin > 1e-3
            agree = (ours == expected)[clear].double().mean()
            assert agree == 1 if name == "top1_token" else agree > 0.99, name
            continue
        close = torch.isclose(
            ours, expected.double(), rtol=RTOL.get(name, rel), atol=ATOL.get(name, 0.0)
        )
        worst = ((ours - expected).abs() / expected.abs().clamp(min=1e-12)).max()
        assert close.all(), f"{name}: {int((~close).sum())} of {len(close)}, worst {worst:.2e}"


RTOL = {"v_eff": 1e-3}  # goes with the square of the probabilities
ATOL = {
    "logit_margin": 5e-4,  # logits near 20 carry 1e-5 of rounding each, margins near 0 all of it
    "nll": 5e-5,
    "p_top1": 1e-5,
    "p_top2": 1e-5,
    "flip_radius": 2e-4,
    "relative_flip_radius": 1e-5,
    "log10_delta_tcb": 1e-4,
}


def relative_error(answers, truth):
    """Largest relative error of delta_tcb over all tokens."""
    ours = torch.tensor([x for a in answers for x in a.stability["delta_tcb"]])
    return float(((ours - truth.delta_tcb) / truth.delta_tcb).abs().max())


def check_against_oracle(lm, model, requests, **options):
    """Asks ``lm``, checks positions, tokens and quantities; largest relative error of delta."""
    answers = lm.generate_traced(requests)
    assert all(isinstance(a, Generation) for a in answers), [a for a in answers if not a]
    assert [a.positions for a in answers] == [list(range(len(a.tokens))) for a in answers]
    prompts = [list(ids) for ids in lm._encoder.encode([r.args[0] for r in requests])]
    hidden, truth = oracle(model, prompts, [a.tokens for a in answers], **options)
    assert_quantities(answers, truth)
    some = torch.arange(0, len(hidden), max(1, len(hidden) // 4))
    delta, flip = reference(
        hidden[some],
        model.get_output_embeddings().weight[: options.get("n_vocab")],
        softcap=options.get("softcap"),
    )
    ours = torch.tensor([x for a in answers for x in a.stability["delta_tcb"]]).double()
    assert torch.allclose(ours[some], delta, rtol=2e-4, atol=0)
    return answers, truth


def check_next_token(lm, model, requests):
    """The last prompt position against the same oracle, the choices' log-probabilities too."""
    answers = lm.next_token(requests)
    assert all(isinstance(a, NextToken) for a in answers)
    prompts = [list(p.ids) for p in lm._encoder.prompts([r.args for r in requests])]
    states = torch.stack([s[-1] for s in true_states(model, prompts)])
    weight = model.get_output_embeddings().weight
    ids = torch.tensor([a.choice_tokens for a in answers])
    truth = token_stability(states.double(), weight.double(), choices=ids)
    for name in ("delta_tcb", "v_eff", "choice_mass", "h_norm"):
        ours = torch.tensor([a.stability[name] for a in answers], dtype=torch.float64)
        torch.testing.assert_close(ours, getattr(truth, name), rtol=2e-4, atol=1e-6)
    ours = torch.tensor([a.choice_logprobs for a in answers], dtype=torch.float64)
    expected = torch.log_softmax(states.double() @ weight.double().T, 1).gather(1, ids)
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-4)
    return answers
