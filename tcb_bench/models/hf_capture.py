"""The hidden states that a module receives, seen by a hook while it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from tcb_bench.errors import ModelError


@dataclass
class Capture:
    """Hidden states (B, 1, d) of the last position as the head received them, per forward pass.

    Without ``keeps_all`` only the latest is held.
    """

    keeps_all: bool
    states: list[Tensor] = field(default_factory=list)

    def add(self, state: Tensor) -> None:
        """Takes the state of one more forward pass."""
        if not self.keeps_all:
            self.states.clear()
        self.states.append(state.detach().clone())  # a view would keep the whole prompt's states

    def last(self) -> Tensor:
        """(B, d) of the latest forward pass."""
        if not self.states:
            raise ModelError(
                "the forward pass does not call the output head, so no hidden state can be seen; "
                "this architecture is not supported"
            )
        return self.states[-1][:, -1]


@contextmanager
def capture(module: nn.Module, *, keeps_all: bool = True) -> Iterator[Capture]:
    """Within it, ``module`` sees only the last position of its input, and that is kept.

    So (B, T, V) logits never exist, also where a model has no ``logits_to_keep``.
    """
    captured = Capture(keeps_all)

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            last = args[0][:, -1:]
            args = (last, *args[1:])
        else:
            name = next(iter(kwargs))
            last = kwargs[name][:, -1:]
            kwargs = {**kwargs, name: last}
        captured.add(last)
        return args, kwargs

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield captured
    finally:
        handle.remove()
