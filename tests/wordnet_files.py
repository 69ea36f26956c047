"""The folder nltk wants WordNet in, made of the files that Debian's wordnet packages install."""

import shutil
from pathlib import Path

import pytest

DEBIAN = Path("/usr/share/wordnet")
WANTED = ("data.*", "index.*", "*.exc", "cntlist.rev")
# lexnames(5WN): the lexicographer files in the order of their numbers.
LEXICOGRAPHER_FILES = {
    "adj": "all pert",
    "adv": "all",
    "noun": "Tops act animal artifact attribute body cognition communication event feeling food "
    "group location motive object person phenomenon plant possession process quantity relation "
    "shape state substance time",
    "verb": "body change cognition communication competition consumption contact creation emotion "
    "motion perception possession social stative weather",
}
NUMBERS = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


def lexnames():
    """The 45 lines ``number, name, part of speech``; adj.ppl stands last."""
    names = [f"{pos}.{name}" for pos, all_ in LEXICOGRAPHER_FILES.items() for name in all_.split()]
    rows = enumerate([*names, "adj.ppl"])
    return "".join(f"{i:02d}\t{name}\t{NUMBERS[name.split('.')[0]]}\n" for i, name in rows)


def make_nltk_data(folder):
    """``folder`` with corpora/wordnet in it; skips where Debian's files are not installed."""
    if not (DEBIAN / "index.sense").is_file():
        pytest.skip("no WordNet here: apt-get install wordnet-base wordnet-sense-index")
    target = folder / "corpora" / "wordnet"
    target.mkdir(parents=True)
    for pattern in WANTED:
        for file in DEBIAN.glob(pattern):
            shutil.copyfile(file, target / file.name)
    (target / "lexnames").write_text(lexnames(), encoding="ascii")
    return folder
