"""Written runs of one model in two precisions, and the precision note of them."""

from report_runs import Written, write_run

from tcb_bench.report.analysis_precision import precision_tables
from tcb_bench.report.load import load

CHOICE = {"request": "next_token", "position": "prompt_end"}
NUMBER = {"request": "generate_traced", "position": "final_number"}
OLDER = "2025-01-01T00-00-00.000000"
BOXED = r"So \boxed{7} it is."


def written(rows, **more):
    """A run without a sweep; ``rows`` are what each document's row has besides, one per document."""

    def change(axes, question, row):
        return {**row, "text": None, "answer": "A", **rows[int(question[-3:])]}

    given = {"temperatures": (), "contexts": (), "types": (), "repeats": 1}
    given |= {"n_questions": len(rows), "change_row": change, "tcb": CHOICE}
    return Written(**{**given, "dtype": "float32", "backend": "hf", **more})


def measured(values, name="delta_tcb", **more):
    return [{"stability": {name: value}, **more} for value in values]


def tables(tmp_path, *runs):
    """(Differences by quantity, rows of what was compared) of runs in this order."""
    folders = [write_run(tmp_path / f"run{i}", run) for i, run in enumerate(runs)]
    found = precision_tables(load(folders).runs)
    if not found:
        return {}, []
    differences, compared = found
    return {row["quantity"]: row for row in differences.rows}, compared.rows


def narrow(rows, **more):
    return written(rows, dtype="bfloat16", **more)
