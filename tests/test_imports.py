"""The direction of imports, and what importing costs. Oracle: the table of allowed edges, by hand."""

import ast
import subprocess
import sys

import pytest
from conftest import ROOT

LM_EVAL = {"task.py", "run.py", "durable.py", "load_tasks.py"}  # and all of models/
FOUNDATION = {"errors", "version", "responses", "selection", "conditions"}


def imported(path):
    """Full names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module in ("tcb_bench", "tcb_bench.metrics", "tcb_bench.models"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files(folder):
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("path", files(ROOT / "metrics"), ids=lambda p: p.name)
def test_metrics_import_nothing_of_the_engine_and_no_lm_eval(path):
    ours = {name for name in imported(path) if name.startswith("tcb_bench")}
    assert {name for name in ours if not name.startswith("tcb_bench.metrics")} == set()
    assert not any(name.split(".")[0] == "lm_eval" for name in imported(path))


@pytest.mark.parametrize("path", files(ROOT / "tcb_bench"), ids=lambda p: p.name)
def test_lm_eval_appears_only_where_it_is_driven(path):
    uses = any(name.split(".")[0] == "lm_eval" for name in imported(path))
    assert not uses or path.name in LM_EVAL or path.parent.name == "models"


@pytest.mark.parametrize("name", sorted(FOUNDATION))
def test_the_foundation_imports_only_itself(name):
    ours = {n for n in imported(ROOT / "tcb_bench" / f"{name}.py") if n.startswith("tcb_bench")}
    assert ours <= {f"tcb_bench.{other}" for other in FOUNDATION}


BOARDS = {
    *("results", "selection", "metrics", "errors", "aggregate", "records", "sample_records"),
    *("leaderboards", "version", "row_tables", "conditions"),
}
"""What leaderboards may import: a result's definitions, what computes its numbers, and itself."""


@pytest.mark.parametrize("path", files(ROOT / "leaderboards"), ids=lambda p: p.name)
def test_leaderboards_import_results_and_metrics_only(path):
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("tcb_bench.")}
    assert ours <= BOARDS
    assert not any(name.split(".")[0] in ("lm_eval", "torch") for name in imported(path))


UPWARD = {
    *("cli", "commands", "listing", "tables", "validate", "__main__", "plan", "perturb_view"),
    *("parser", "parser_options", "parser_study", "parser_research", "parser_trace"),
    *("parser_boards", "commands_boards", "check_command"),
}


@pytest.mark.parametrize("path", files(ROOT / "tcb_bench"), ids=lambda p: p.name)
def test_the_engine_does_not_import_the_command_line(path):
    if path.stem in UPWARD:
        return
    assert not {f"tcb_bench.{name}" for name in UPWARD} & set(imported(path))


@pytest.mark.parametrize("path", files(ROOT / "tcb_bench" / "models"), ids=lambda p: p.name)
def test_models_know_nothing_of_tasks_runs_or_stores(path):
    banned = {
        "task",
        "run",
        "store",
        "durable",
        "results",
        "load_tasks",
        "assemble",
        "samples",
        "data",
    }
    assert not {f"tcb_bench.{name}" for name in banned} & set(imported(path))


@pytest.mark.parametrize(
    "command", [["--help"], ["run", "--help"], ["ls", "metrics"], ["ls", "tasks"]], ids=" ".join
)
def test_help_and_lists_import_neither_torch_nor_lm_eval(command):
    script = (
        "import sys\nfrom tcb_bench.__main__ import main\n"
        f"try:\n    main({command})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'lm_eval', 'transformers', 'datasets', 'numpy'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_module_is_loaded_under_two_names():
    script = "import sys, tcb_bench.metrics.delta_tcb; sys.exit('metrics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    "path",
    files(ROOT / "tcb_bench") + files(ROOT / "metrics") + files(ROOT / "leaderboards"),
    ids=lambda p: p.name,
)
def test_files_and_functions_stay_within_their_budget(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    long = {
        node.name: code_lines(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and code_lines(node) > 50
    }
    assert long == {}


def code_lines(function):
    """Lines of a function's body, its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0
