"""Random prediction points and comparisons shared by the tests of the stability quantities."""

from dataclasses import fields

import torch

from tcb_bench.metrics.delta_tcb import (
    TokenStability,
    token_stability,
)

F64 = torch.float64
SETTINGS = {
    "plain": {},
    "bias": {"bias": True},
    "scale": {"scale": 0.3},
    "soft-cap": {"softcap": 5.0},
    "all three": {"bias": True, "scale": 1.7, "softcap": 4.0},
}


def problem(seed, n=5, vocab=41, d=7, scale=1.0, dtype=F64):
    """Hidden states and weights with no special structure, and a generator to go on with."""
    g = torch.Generator().manual_seed(seed)
    hidden = scale * torch.randn(n, d, generator=g, dtype=F64)
    weight = torch.randn(vocab, d, generator=g, dtype=F64)
    return hidden.to(dtype), weight.to(dtype), g


def with_bias(options, vocab, g):
    return options | (
        {"bias": torch.randn(vocab, generator=g, dtype=F64)} if "bias" in options else {}
    )


def logits(hidden, weight, bias=None, softcap=None, scale=1.0):
    """The head as a transformers model writes it."""
    x = hidden @ weight.T
    x = scale * (x if bias is None else x + bias)
    return x if softcap is None else torch.tanh(x / softcap) * softcap


def given_logits(z, weight, **options):
    """token_stability in float32 where the logits are exactly ``z``: h is 0 and the bias says them."""
    hidden = torch.zeros(1, weight.shape[1])
    return token_stability(hidden, weight.float(), bias=z.float(), **options)


def assert_same(a, b, rtol, skip=()):
    for f in fields(TokenStability):
        if f.name not in skip:
            x, y = getattr(a, f.name), getattr(b, f.name)
            torch.testing.assert_close(x, y, rtol=rtol, atol=rtol, msg=lambda m, f=f: f.name + m)
