"""Vectors of reference texts, kept within a budget of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tcb_bench.metrics.bert_score_match import Embedded

EmbedAll = Callable[[Sequence[str]], Iterable[tuple[str, Embedded]]]

_MIB = 2**20


class ReferenceCache:
    """The most recently used references, together at most ``mib`` large; the least recent go first.

    Args:
        embed: gives each of some texts with its vectors.
        mib: the budget; a single text may exceed it.
    """

    def __init__(self, embed: EmbedAll, mib: float) -> None:
        self._embed = embed
        self._most = mib * _MIB
        self._held: OrderedDict[str, Embedded] = OrderedDict()
        self._bytes = 0

    def parts(self, sizes: Mapping[str, int]) -> Iterator[list[str]]:
        """Yield the texts of ``sizes`` (bytes of each) in parts that fit, in their order."""
        part: list[str] = []
        room = self._most
        for text, size in sizes.items():
            if part and size > room:
                yield part
                part, room = [], self._most
            part.append(text)
            room -= size
        if part:
            yield part

    def fetch(self, part: Sequence[str], sizes: Mapping[str, int]) -> dict[str, Embedded]:
        """Return the vectors of each text of a part; only what is not held is embedded."""
        for text in part:
            if text in self._held:
                self._held.move_to_end(text)
        missing = [text for text in part if text not in self._held]
        needed = sum(sizes[text] for text in missing)
        wanted = set(part)
        while self._held and self._bytes + needed > self._most:
            oldest = next(iter(self._held))
            if oldest in wanted:
                break
            self._bytes -= self._held.pop(oldest).nbytes
        for text, embedded in self._embed(missing):
            self._held[text] = embedded
            self._bytes += embedded.nbytes
        return {text: self._held[text] for text in part}
