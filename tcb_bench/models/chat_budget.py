"""What a run may cost: nothing is sent that could go beyond the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tcb_bench.models.prices import Price

COUNTED = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")


@dataclass
class Budget:
    """Money and tokens spent, promised to requests on the way, and allowed.

    Attributes:
        price: of the model; None where nobody gave one (then there is no ``cost_limit``).
        cost_limit: USD in all, or None.
        token_limit: prompt and completion tokens in all, or None.
        is_batch: whether the Batch API's price holds.
        usage: tokens that were billed so far, with ``requests``.
        usd: what they cost; 0 without a price.
        answered: responses of this process.
    """

    price: Price | None = None
    cost_limit: float | None = None
    token_limit: int | None = None
    is_batch: bool = False
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("requests", *COUNTED), 0))
    usd: float = 0.0
    answered: int = 0
    _usd_before: float = 0.0
    _held: dict[int, tuple[float, int]] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.cost_limit is not None or self.token_limit is not None

    def begin(self, spent: Mapping[str, float]) -> None:
        """Takes over what earlier invocations spent: ``requests``, tokens by name, ``usd``."""
        self.usage = {name: int(spent.get(name, 0)) for name in self.usage}
        self.usd = self._usd_before = float(spent.get("usd", 0.0))

    def projected(self, left: int) -> float:
        """USD in all once ``left`` more responses are there, each at the mean so far."""
        each = (self.usd - self._usd_before) / self.answered if self.answered else 0.0
        return self.usd + each * left

    def hold(self, owner: int, prompt: int, completion: int) -> bool:
        """Promises a request the most that it can cost; False where that would be too much."""
        if not self.is_limited:
            return True
        usd = self.cost({"prompt_tokens": prompt, "completion_tokens": completion})
        tokens = prompt + completion
        held_usd = sum(each[0] for each in self._held.values())
        held_tokens = sum(each[1] for each in self._held.values())
        if self.cost_limit is not None and self.usd + held_usd + usd > self.cost_limit:
            return False
        spent = self.usage["prompt_tokens"] + self.usage["completion_tokens"]
        if self.token_limit is not None and spent + held_tokens + tokens > self.token_limit:
            return False
        self._held[owner] = (usd, tokens)
        return True

    def release(self, owner: int) -> None:
        """A request is over, whatever came of it."""
        self._held.pop(owner, None)

    @property
    def has_promises(self) -> bool:
        """Whether requests are on the way, so that room may come back."""
        return bool(self._held)

    def add(self, usage: Mapping[str, int]) -> float:
        """Counts a bill; returns its USD."""
        self.usage["requests"] += 1
        for name in COUNTED:
            self.usage[name] += usage.get(name, 0)
        usd = self.cost(usage)
        self.usd += usd
        return usd

    def worst(self, prompt: int, completion: int) -> dict[str, int]:
        """What a bill that is missing counts as where there is a limit: all that it could be."""
        if not self.is_limited:
            return {}
        return {"prompt_tokens": prompt, "completion_tokens": completion}

    def cost(self, usage: Mapping[str, int]) -> float:
        """USD of these tokens; 0 without a price."""
        return self.price.cost(usage, is_batch=self.is_batch) if self.price else 0.0

    @property
    def limit_text(self) -> str:
        """The limit that was reached, as the user gave it."""
        limits = []
        if self.cost_limit is not None:
            limits.append(f"--cost_limit {self.cost_limit:g} USD (spent {self.usd:.4f})")
        if self.token_limit is not None:
            spent = self.usage["prompt_tokens"] + self.usage["completion_tokens"]
            limits.append(f"--token_limit {self.token_limit} (spent {spent})")
        return " and ".join(limits)
