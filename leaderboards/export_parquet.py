"""A run as two parquet files, ``metrics.parquet`` and ``samples.parquet``, with real types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tcb_bench.leaderboards.export_options import ExportOptions
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.export_tables import (
    Column,
    Row,
    metric_columns,
    metric_rows,
    sample_columns,
    sample_rows,
)
from tcb_bench.version import __version__

GROUP = 8192  # rows that are in memory at once
TYPES = {
    "text": pa.string(),
    "number": pa.float64(),
    "count": pa.int64(),
    "flag": pa.bool_(),
    "numbers": pa.list_(pa.float64()),
    "texts": pa.list_(pa.string()),
}


def write(sources: Sequence[Source], folder: Path, options: ExportOptions) -> list[str]:
    """Both tables, a row group at a time; units and meanings are in the fields' metadata."""
    _write(folder / "metrics.parquet", metric_columns(sources), metric_rows(sources))
    if options.has_samples:
        columns = sample_columns(sources, has_texts=options.has_texts)
        rows = sample_rows(sources, has_texts=options.has_texts)
        _write(folder / "samples.parquet", columns, rows)
    return []


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The columns as a schema."""
    fields = [
        pa.field(c.name, TYPES[c.kind], metadata={"unit": c.unit, "meaning": c.meaning})
        for c in columns
    ]
    return pa.schema(fields, metadata={"tcb-bench": __version__})


def _write(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    schema, left = schema_of(columns), iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(left, GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
