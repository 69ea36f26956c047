"""Items for the tests of perturbations: by hand, by hypothesis, and from the real records."""

import json
import re
from functools import cache

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.perturb.item import Item, Sentence
from tcb_bench.perturb.tools import Tools

steady = settings(deadline=None)  # a busy machine is no fault of the code
ODD = [
    "",
    " ",
    "\xa0",
    "\u200b",
    " .",
    '".',
    "😀😀",
    "Texas A&amp;M &lt;i&gt;",
    "\u200e A \u2009 B",
    " Dr. Smith's",
    "[MASK]",
    "a&b;c &#0; &#65; &nosuch;",
    "İstanbul ß ﬁn\r\n",
]
TITLES = ["A", "B (film)", "Texas A&amp;M", "", "(", "It (novel)", "\ud83d"]
ANY = st.characters()  # surrogates too
texts = (
    st.sampled_from(ODD) | st.text(ANY, max_size=20) | st.from_regex(r"( [A-Z]?[a-z]{1,6}){1,5}\.")
)


def numbered(*title_sizes, facts, elsewhere=(), has_support=True):
    """An item whose documents A, B, ... hold sentences "A0", "A1", ...; facts as "A0 B1"."""
    documents = {
        title: tuple(f"{title}{i}" for i in range(size))
        for title, size in zip("ABCDEF", title_sizes, strict=False)
    }
    evidence = tuple(Sentence(f[0], int(f[1:]), f) for f in facts.split())
    other = tuple(Sentence("Z", i, text) for i, text in enumerate(elsewhere))
    return Item("q", "Who?", "A0", evidence, documents, other, has_support)


def shown(item):
    """The texts of the evidence, as one line."""
    return " ".join(sentence.text for sentence in item.evidence)


@st.composite
def items(draw):
    """Any item: odd texts, one to four documents, evidence in any order, with or without labels."""
    titles = draw(st.lists(st.sampled_from(TITLES), min_size=1, max_size=4, unique=True))
    documents = {title: tuple(draw(st.lists(texts, max_size=5))) for title in titles}
    every = [Sentence(t, i, s) for t in titles for i, s in enumerate(documents[t])]
    has_support = draw(st.booleans())
    some = st.lists(st.sampled_from(every), max_size=5, unique=True) if every else st.just([])
    evidence = draw(some) if has_support else every
    elsewhere = [Sentence("Z", i, text) for i, text in enumerate(draw(st.lists(texts, max_size=3)))]
    answer = draw(texts)
    return Item("q", "Who?", answer, tuple(evidence), documents, tuple(elsewhere), has_support)


def real_items(folder, limit=None):
    """Items of the real HotpotQA records whose facts resolve, all their documents in the pool."""
    found = []
    for name in ("hotpot.jsonl", "hotpot_fullwiki.jsonl"):
        with (folder / "hotpotqa" / name).open(encoding="utf-8") as lines:
            for line in lines:
                if limit is not None and len(found) == limit:
                    return found
                item = _real(json.loads(line))
                found += [item] if item else []
    return found


def _real(row):
    context, facts = row["context"], row["supporting_facts"]
    documents = dict(zip(context["title"], map(tuple, context["sentences"]), strict=True))
    places = list(zip(facts["title"], facts["sent_id"], strict=True))
    if not all(i < len(documents.get(title, ())) for title, i in places):
        return None
    evidence = tuple(Sentence(title, i, documents[title][i]) for title, i in places)
    return Item(row["id"], row["question"], row["answer"], evidence, documents)


class Capitals:
    """A stand-in for Tools: a named entity is a run of capitalised ASCII words."""

    def ner(self, text):
        runs = re.finditer(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*(?:'s)?", text)
        return [(*run.span(), "NAME") for run in runs]


@cache
def spacy_tools():
    """Tools with spaCy's English names; skips the test where they are not installed."""
    tools = Tools()
    try:
        tools.check({"ner"})
    except UsageError as error:
        pytest.skip(str(error))
    return tools
