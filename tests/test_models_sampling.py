"""Sampling parameters per row, noise, and their effect on logits (cases 16, 17, 18, 20)."""

import numpy as np
import pytest
import torch
from toy_models import generation

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.models.sampling import RowSampler, Sampling, gumbel

V = 50


def sampling(**changes):
    return Sampling.from_kwargs(generation(**changes))


def choose(scores, *rows, ids=None, lengths=None, n_vocab=V):
    """Token chosen for each row of (B, V) scores behind a one-token prompt."""
    ids = torch.zeros(len(rows), 1, dtype=torch.long) if ids is None else ids
    sampler = RowSampler(rows, lengths or [ids.shape[1]] * len(rows), n_vocab)
    return sampler(ids, scores).argmax(-1).tolist()


def test_unknown_and_missing_parameters_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'temperature'"):
        sampling(temperatur=1)
    with pytest.raises(UsageError, match="lacks top_p, top_k"):
        Sampling.from_kwargs({k: v for k, v in generation().items() if k not in ("top_p", "top_k")})


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -0.1, "seed": 1},
        {"temperature": 1.0},
        {"temperature": float("nan"), "seed": 1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2.0},
        {"repetition_penalty": 0.0},
        {"max_gen_toks": 0},
        {"max_gen_toks": 1.5},
        {"top_k": None},
        {"until": [""]},
        {"seed": -1},
        {"seed": 2**64},
        {"stability_at": "middle"},
    ],
)
def test_values_out_of_range_are_refused(bad):
    with pytest.raises(UsageError, match=next(iter(bad)) if "stability_at" not in bad else "rule"):
        sampling(**bad)


def test_one_stop_string_may_be_given_as_it_is():
    assert sampling(until="ab").until == sampling(until=["ab"]).until == ("ab",)


def test_noise_of_neighbouring_positions_shares_nothing():
    first, second = gumbel(7, 3, 4096), gumbel(7, 4, 4096)
    assert not np.isin(first, second).any()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.06
    assert np.array_equal(first, gumbel(7, 3, 4096))
    assert np.array_equal(first[:100], gumbel(7, 3, 100))


def test_noise_has_the_moments_of_a_gumbel_distribution():
    noise = gumbel(1, 0, 200_000)
    assert noise.mean() == pytest.approx(0.57722, abs=0.01)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.03)
    assert np.isfinite(noise).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_softmax_says(temperature):
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    rows = [sampling(temperature=temperature, seed=seed) for seed in range(4000)]
    counts = np.bincount(choose(logits.expand(4000, 4).clone(), *rows, n_vocab=4), minlength=4)
    expected = 4000 * torch.softmax(logits[0] / temperature, 0).numpy()
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, 3 degrees, p = 0.001


@pytest.mark.parametrize("step", range(11))
def test_every_temperature_of_the_sweep_reaches_the_logits(step):
    temperature = step / 5
    logits = torch.randn(1, V, generator=torch.Generator().manual_seed(0))
    seed = None if step == 0 else 11
    scores = RowSampler([sampling(temperature=temperature, seed=seed)], [1], V)(
        torch.zeros(1, 1, dtype=torch.long), logits
    )
    if step == 0:
        assert torch.equal(scores, logits)
        return
    expected = logits.double() / temperature + torch.from_numpy(gumbel(11, 0, V))
    shift = (scores - expected)[0]
    assert (shift - shift.mean()).abs().max() < 1e-5


@pytest.mark.parametrize("position", [0, 1, 5])
def test_the_noise_is_that_of_the_position_behind_the_prompt(position):
    ids = torch.zeros(2, 3 + position, dtype=torch.long)
    rows = [sampling(temperature=1.0, seed=seed) for seed in (4, 5)]
    scores = RowSampler(rows, [3, 2], V)(ids, torch.zeros(2, V))
    for row, seed in zip(scores, (4, 5), strict=True):
        assert torch.allclose(row, torch.from_numpy(gumbel(seed, position, V)).float())


def test_a_tiny_temperature_is_greedy_and_not_nan():
    logits = torch.randn(1, V)
    assert choose(logits, sampling(temperature=1e-30, seed=1)) == [int(logits.argmax())]


def test_a_row_chooses_the_same_token_alone_and_among_others():
    logits = torch.randn(6, V, generator=torch.Generator().manual_seed(1))
    rows = [
        sampling(),
        sampling(temperature=0.2, seed=1),
        sampling(temperature=1.0, seed=2, top_p=0.8),
        sampling(temperature=2.0, seed=3, top_k=5),
        sampling(temperature=1.4, seed=4, min_p=0.1, top_k=9),
        sampling(temperature=1.0, seed=5, repetition_penalty=1.3),
    ]
    together = choose(logits, *rows)
    assert together == [choose(logits[i : i + 1], row)[0] for i, row in enumerate(rows)]
    order = [3, 5, 0, 2, 4, 1]
    assert [together[i] for i in order] == choose(logits[order], *(rows[i] for i in order))


def test_top_k_top_p_and_min_p_keep_a_row_inside_their_sets():
    logits = torch.linspace(3, -3, V)[None]
    probabilities = torch.softmax(logits[0], 0)
    nucleus = int((probabilities.cumsum(0) < 0.5).sum()) + 1
    floor = int((probabilities >= 0.5 * probabilities[0]).sum())
    for changes, size in (({"top_k": 3}, 3), ({"top_p": 0.5}, nucleus), ({"min_p": 0.5}, floor)):
        rows = [sampling(temperature=1.0, seed=seed, **changes) for seed in range(500)]
        assert set(choose(logits.expand(500, V).clone(), *rows)) == set(range(size)), changes


def test_the_repetition_penalty_counts_a_rows_own_tokens_and_no_padding():
    logits = torch.zeros(2, V)
    logits[:, 7] = 2.0  # the padding token of row 1, a real token of row 0
    logits[:, 8] = 1.5
    ids = torch.tensor([[7, 3], [7, 3]])
    rows = [sampling(repetition_penalty=2.0)] * 2
    assert choose(logits, *rows, ids=ids, lengths=[2, 1]) == [8, 7]


def test_padded_vocabulary_rows_are_never_chosen():
    logits = torch.zeros(2, V)
    logits[:, -1] = 1e4
    rows = [sampling(), sampling(temperature=2.0, seed=1)]
    assert max(choose(logits, *rows, n_vocab=V - 1)) < V - 1


def test_a_row_with_nan_is_remembered_and_the_others_are_not_touched():
    logits = torch.zeros(3, V)
    logits[1, 4] = torch.nan
    sampler = RowSampler([sampling()] * 3, [1] * 3, V)
    sampler(torch.zeros(3, 1, dtype=torch.long), logits)
    sampler(torch.zeros(3, 2, dtype=torch.long), torch.zeros(3, V))
    assert sampler.is_finite.tolist() == [True, False, True]
