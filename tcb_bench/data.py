"""Where documents come from: the hub (pinned), a local folder, or the samples that ship."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.data_files import read_csv, read_jsonl, read_text
from tcb_bench.errors import DataError, reason
from tcb_bench.generated import made_documents
from tcb_bench.task_yaml import FILE_BUILDERS

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from tcb_bench.task_files import TcbSpec

ID_COLUMN = "tcb_id"


class MissingData(DataError):
    """This task's files are not in the folder given by --data; other tasks may still run."""


def load_documents(config: dict[str, Any], spec: TcbSpec, data: str, folder: Path) -> DatasetDict:
    """All splits of a task, each row with its document id in the column ``tcb_id``.

    Args:
        config: the task's YAML (its dataset_... keys and its splits).
        spec: its ``tcb`` mapping (``sample``, ``local`` and ``doc_id`` are used here).
        data: ``hub``, ``sample``, or a folder.
        folder: the YAML's folder, against which relative files are resolved.

    Raises:
        DataError: not reachable, not readable, not UTF-8, no rows, or ids that are not unique.
        MissingData: ``data`` is a folder without this task's files.
    """
    from datasets import Dataset, DatasetDict

    splits = _splits(config)
    is_own_file = config["dataset_path"] in FILE_BUILDERS
    if is_own_file or data == "hub":
        loaded = _from_files(config, folder) if is_own_file else _from_hub(config)
    else:
        read = _sample_rows if data == "sample" else _local_rows
        rows = {
            split: read(config, spec, folder if data == "sample" else Path(data), split)
            for split in splits
        }
        loaded = DatasetDict(
            {split: Dataset.from_list(found) for split, found in rows.items() if found}
        )
    if spec.generator:
        loaded = DatasetDict(
            {
                split: Dataset.from_list(
                    made_documents(loaded[split].to_list(), config, spec, folder)
                )
                for split in splits
                if split in loaded
            }
        )
    main = config.get("test_split") or config.get("validation_split")
    if main not in loaded:
        raise DataError(f"{config['task']}: no documents in split {main!r}")
    return DatasetDict(
        {
            split: _with_ids(loaded[split], config, spec, split)
            for split in splits
            if split in loaded
        }
    )


def _splits(config: dict[str, Any]) -> list[str]:
    names = ("test_split", "validation_split", "training_split", "fewshot_split")
    return list(dict.fromkeys(config[name] for name in names if config.get(name)))


def _from_hub(config: dict[str, Any]) -> DatasetDict:
    import datasets

    path, name, revision = (config.get(f"dataset_{key}") for key in ("path", "name", "revision"))
    try:
        return datasets.load_dataset(
            path, name, revision=revision, **(config.get("dataset_kwargs") or {})
        )
    except Exception as error:  # the hub client raises a dozen kinds; all mean the same to a user
        raise DataError(
            f"data set {path} ({name or 'default'}, revision {str(revision)[:12]}) cannot be "
            f"loaded from the hub: {reason(error)}; use --data sample for the shipped sample, "
            "or --data DIR for local files"
        ) from error


def _from_files(config: dict[str, Any], folder: Path) -> DatasetDict:
    """A user's own files: ``dataset_path: json`` (or csv, parquet) with ``data_files``."""
    import datasets

    kwargs = dict(config.get("dataset_kwargs") or {})
    files = kwargs.pop("data_files", None)
    if files is None:
        raise DataError(
            f"dataset_path: {config['dataset_path']} needs dataset_kwargs: {{data_files: ...}}"
        )
    named = files if isinstance(files, dict) else {(_splits(config) or ["test"])[0]: files}
    resolved = {split: _existing(folder, value) for split, value in named.items()}
    if config["dataset_path"] == "csv":
        kwargs.setdefault("keep_default_na", False)  # an option "None" or "NA" is text, not a hole
    try:
        return datasets.load_dataset(config["dataset_path"], data_files=resolved, **kwargs)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise DataError(f"{files}: cannot be read: {reason(cause)}") from error


def _existing(folder: Path, value: str | list[str]) -> list[str]:
    paths = [folder / name for name in ([value] if isinstance(value, str) else value)]
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{path}: no such data file; data_files are relative to the YAML's folder"
            )
        if path.suffix == ".jsonl":
            if not read_jsonl(path):  # names the line that is not JSON
                raise DataError(f"{path}: the file has no documents")
        elif path.suffix != ".parquet":
            read_text(path)  # names the byte that is not UTF-8, which the builders do not
    return [str(path) for path in paths]


def _sample_rows(
    config: dict[str, Any], spec: TcbSpec, folder: Path, split: str
) -> list[dict[str, Any]]:
    """Rows of the shipped sample; where rows name a subject, those of this task's subject."""
    path = folder / spec.sample / f"{split}.jsonl"
    if not path.is_file():
        if split == config.get("test_split", config.get("validation_split")):
            raise MissingData(
                f"{config['task']}: no sample ships for it, "
                f"{path.name} is not in {path.parent.name}/"
            )
        return []
    name = config.get("dataset_name")
    rows = read_jsonl(path)
    if not spec.generator:  # which takes rows of several subjects
        rows = [row for row in rows if row.get("subject", name) == name]
    if not rows:
        raise MissingData(f"{config['task']}: the shipped sample has no rows of {name!r}")
    return rows


def _local_rows(
    config: dict[str, Any], spec: TcbSpec, folder: Path, split: str
) -> list[dict[str, Any]]:
    """Rows of a local folder, in the layout that the task's ``tcb: {local: ...}`` describes."""
    if not folder.is_dir():
        raise DataError(
            f"--data {folder}: no such folder; give hub, sample, or a folder with the data sets"
        )
    local = spec.local
    if not local:
        raise MissingData(
            f"{config['task']}: its YAML has no `tcb: {{local: ...}}`, "
            "so --data DIR cannot serve it"
        )
    name = local.get("splits", {}).get(split, split)
    files = local["files"] if isinstance(local["files"], list) else [local["files"]]
    adapt = _ADAPTERS[local.get("adapt", "none")]
    found: list[dict[str, Any]] = []
    for template in files:  # the rows of several files are one pool
        path = folder / template.format(split=name, config=config.get("dataset_name"))
        if not path.is_file():
            if split in (config.get("training_split"), config.get("fewshot_split")):
                return []
            raise MissingData(f"{config['task']}: {path.relative_to(folder)} is not in {folder}")
        rows = read_csv(path, local.get("columns")) if path.suffix == ".csv" else read_jsonl(path)
        subject = config.get("dataset_name") if "{config}" in template else path.stem
        found += [adapt(row, subject, f"{path.name} row {i}") for i, row in enumerate(rows)]
    return found


def _mmlu_csv(row: dict[str, Any], subject: str | None, where: str) -> dict[str, Any]:
    """A row of the authors' CSV (question, A, B, C, D, letter) with the hub's columns."""
    answer = dict(zip("ABCD", range(4), strict=True)).get(row["answer"].strip())
    if answer is None:
        raise DataError(f"{where}: answer {row['answer']!r} is not one of A, B, C, D")
    choices = [row[letter] for letter in "ABCD"]
    return {
        "question": row["question"],
        "subject": subject,
        "choices": choices,
        "answer": answer,
    }


_ADAPTERS: dict[str, Callable[[dict[str, Any], str | None, str], dict[str, Any]]] = {
    "none": lambda row, _subject, _where: row,
    "mmlu_csv": _mmlu_csv,
}


def _with_ids(dataset: Dataset, config: dict[str, Any], spec: TcbSpec, split: str) -> Dataset:
    """The split with its document ids: rows are counted in the data set's own order, from 0."""
    if len(dataset) == 0:
        raise DataError(f"{config['task']}: split {split!r} has no documents")
    has_id = "id" in dataset.column_names
    template = spec.doc_id or ("{id}" if has_id else "{row}")
    if "{id}" in template and not has_id:
        raise DataError(
            f"{config['task']}: doc_id uses {{id}} but the data has no column 'id', "
            f"only {', '.join(dataset.column_names)}"
        )
    own = dataset["id"] if has_id else range(len(dataset))
    name = config.get("dataset_name") or ""
    ids = [
        template.format(config=name, split=split, row=i, id=value) for i, value in enumerate(own)
    ]
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise DataError(
            f"{config['task']}: document id {twice!r} occurs twice in split {split!r}; "
            "ids must be unique"
        )
    return dataset.add_column(ID_COLUMN, ids)
