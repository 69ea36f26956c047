"""‖J_l‖_F over depth against full Jacobians by autograd in float64, and by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from toy_models import byte_tokenizer, toy

from tcb_bench.errors import ModelError
from tcb_bench.models.hf import HF
from tcb_bench.models.hf_layers import Probing, find_blocks, watched
from tcb_bench.responses import Failure

IDS = [5, 40, 77, 12, 200, 33, 90]
MANY = {"probes": 2, "directions": 256, "seed": 0}
# as many directions as there are in the toys' 16 dimensions leave next to nothing to chance


def lm_of(model, **more):
    return HF(model, tokenizer=byte_tokenizer(), device="cpu", **more)


def measure(lm, ids=IDS, **changes):
    [found] = lm.measure_layers([ids], Probing(**{"all_positions": True, **MANY, **changes}))
    return found.value


def jacobians(model, ids, n_vocab):
    """Oracle: d softmax / d x_l (V, T, d) at every state, by one backward pass per token."""
    model = model.double()
    blocks = find_blocks(model)
    with torch.enable_grad(), watched(blocks, model.get_output_embeddings()) as stream:
        z = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1, :n_vocab]
        rows = [torch.autograd.grad(p, stream.all, retain_graph=True) for p in torch.softmax(z, 0)]
    states = [x.detach()[0] for x in stream.all]
    return [torch.stack([row[i][0] for row in rows]) for i in range(len(states))], states


def log10(x):
    return 0.5 * math.log10(float(x))


@pytest.mark.parametrize("architecture", ["Llama", "GPT2", "Gemma2", "Qwen2"])
def test_every_layer_equals_the_full_jacobian(architecture):
    more = {"head_dim": 8, "final_logit_softcapping": 5.0} if architecture == "Gemma2" else {}
    model = toy(architecture, num_hidden_layers=3, spread=0.7, **more)
    lm = lm_of(model)
    found, last_only = measure(lm), measure(lm, all_positions=False)
    truth, states = jacobians(model, IDS, lm.head.size)
    assert len(found["last"]["log10_norm"]) == 5
    assert "all" not in last_only
    for i, (j, x) in enumerate(zip(truth, states, strict=True)):
        last = log10(j[:, -1].square().sum())
        assert found["last"]["log10_norm"][i] == pytest.approx(last, abs=2e-4)
        assert last_only["last"]["log10_norm"][i] == pytest.approx(last, abs=2e-4)
        whole = j.square().sum((0, 2))
        assert found["all"]["log10_norm"][i] == pytest.approx(log10(whole.sum()), abs=2e-4)
        weighted = (whole * x.square().sum(1)).sum()
        assert found["all_relative"]["log10_norm"][i] == pytest.approx(log10(weighted), abs=2e-4)
        assert found["log10_x_norm"][i] == pytest.approx(float(x[-1].norm().log10()), abs=1e-5)
    assert found["exact"] == pytest.approx(found["last"]["log10_norm"][-1], abs=1e-4)


def test_plain_hutchinson_is_unbiased_at_every_layer_and_its_error_honest():
    model = toy(num_hidden_layers=2, spread=0.7)
    lm = lm_of(model)
    squares = []
    for seed in range(40):
        one = measure(lm, probes=16, directions=0, seed=seed, all_positions=False)["last"]
        squares.append((10 ** (2 * np.array(one["log10_norm"])), np.array(one["error"])))
    truth = [float(j[:, -1].square().sum()) for j in jacobians(model, IDS, lm.head.size)[0]]
    values = np.array([s for s, _ in squares])
    z = (values.mean(0) - truth) / (values.std(0, ddof=1) / math.sqrt(len(values)))
    assert (np.abs(z) < 3.5).all()
    claimed = np.array([2 * math.log(10) * e * s for s, e in squares])
    assert np.sqrt((claimed**2).mean(0)) == pytest.approx(values.std(0, ddof=1), rel=0.5)


class Residual(nn.Module):
    """x + A x: its layers' norms can be computed by hand."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, hidden_states, **_):
        return hidden_states + hidden_states @ self.matrix.T


def test_linear_blocks_give_the_product_of_their_matrices():
    model = toy(num_hidden_layers=3, spread=0.7)
    g = torch.Generator().manual_seed(1)
    matrices = [torch.randn(16, 16, generator=g) * 0.2 for _ in range(3)]
    model.model.layers = nn.ModuleList(map(Residual, matrices))
    model.model.norm = nn.Identity()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(30)  # a prediction of few tokens
    lm = lm_of(model)
    found = measure(lm)
    n = lm.head.size
    w = model.lm_head.weight.detach().double()[:n]
    x = model.model.embed_tokens.weight.detach().double()[IDS[-1]]
    steps = [torch.eye(16, dtype=torch.float64) + m.double() for m in matrices]
    for step in steps:
        x = step @ x
    o = torch.softmax(w @ x, 0)
    j = o[:, None] * (w - o @ w)  # J at the normed state, by BC's equation
    by_hand = [j, j]
    for step in reversed(steps):
        by_hand.append(by_hand[-1] @ step)
    expected = [log10(m.square().sum()) for m in reversed(by_hand)]
    assert found["last"]["log10_norm"] == pytest.approx(expected, abs=1e-4)
    assert found["all"]["log10_norm"] == pytest.approx(expected, abs=1e-4)  # no other position


def test_a_confident_prediction_does_not_underflow():
    model = toy(num_hidden_layers=2, spread=0.5)
    with torch.no_grad():
        model.lm_head.weight.mul_(300)
    found = measure(lm_of(model), probes=8, directions=16)
    assert found["exact"] < -20  # the squares are beyond float32
    truth = jacobians(model, IDS, 263)[0]
    k = int(model(input_ids=torch.tensor([IDS])).logits[0, -1, :263].argmax())
    for i, j in enumerate(truth):
        j[k] -= j.sum(0)  # 1 - o_k is 0 in float64, which loses the top-1's row; rows sum to 0
        expected = log10(j[:, -1].square().sum())
        assert found["last"]["log10_norm"][i] == pytest.approx(expected, abs=0.01)


def test_weights_ask_for_gradients_as_before_and_none_is_left():
    model = toy()
    model.lm_head.weight.requires_grad_(False)
    before = [p.requires_grad for p in model.parameters()]
    measure(lm_of(model))
    assert [p.requires_grad for p in model.parameters()] == before
    assert all(p.grad is None for p in model.parameters())


def test_too_long_and_not_finite_prompts_are_failures_and_others_go_on():
    model = toy()
    lm = lm_of(model, max_length=10)
    probing = Probing(probes=2, directions=2, all_positions=False, seed=0)
    long, good = lm.measure_layers([[5] * 11, IDS], probing)
    assert isinstance(long, Failure)
    assert "11" in long.reason
    assert good.value["prompt_tokens"] == len(IDS)
    with torch.no_grad():
        model.model.embed_tokens.weight[33] = math.nan
    [broken] = lm.measure_layers([IDS], probing)
    assert broken.state == "unscored"


def test_a_model_without_such_blocks_is_told():
    model = toy()
    model.config.num_hidden_layers = 7
    with pytest.raises(ModelError, match=r"7 blocks.*model.layers \(2\)"):
        find_blocks(model)
