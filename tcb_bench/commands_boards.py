"""What `submit`, `leaderboard` and `export` do once parsed: one call, one print, one exit code."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

MANY_FILES = 20  # more of an export are counted, not listed


def submit(arguments: argparse.Namespace) -> int:
    """``tcb-bench submit``: entries of a run, checked, and what to do next."""
    from tcb_bench.submit_command import submit as make

    return make(arguments)


def leaderboard(arguments: argparse.Namespace) -> int:
    """``tcb-bench leaderboard check | build | serve``."""
    return {"check": check, "build": build, "serve": serve}[arguments.board](arguments)


def check(arguments: argparse.Namespace) -> int:
    """Everything that entries say, computed again."""
    from tcb_bench.check_command import check as run_checks

    return run_checks(arguments)


def build(arguments: argparse.Namespace) -> int:
    """The static site from the entries."""
    _build_site(arguments.entries, arguments.out)
    return 0


def _build_site(entries: Path, out: Path) -> None:
    """Builds with a bar on stderr, and says what was made."""
    from rich.console import Console
    from rich.progress import Progress

    from tcb_bench.leaderboards.render import build as build_site

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        pages = bar.add_task("entries", total=None)
        made = build_site(
            entries, out, lambda done, total: bar.update(pages, completed=done, total=total)
        )
    print(f"{out}: boards {made.boards}, entries {made.entries}, pages {made.pages}")  # noqa: T201


def serve(arguments: argparse.Namespace) -> int:
    """The site on loopback until Ctrl-C; built first where there is none."""
    from tcb_bench.leaderboards.serve import address, server

    if not (arguments.site / "index.html").is_file():
        _build_site(arguments.entries, arguments.site)
    with server(arguments.site, arguments.port) as made:
        print(f"{address(made)} (Ctrl-C ends)", flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            made.serve_forever()
    return 0


def export(arguments: argparse.Namespace) -> int:
    """``tcb-bench export``: a run in another format."""
    from tcb_bench.leaderboards.export import export as write
    from tcb_bench.leaderboards.export_options import ExportOptions

    names = ("model_id", "has_samples", "has_texts", "has_conditions", "organization", "force")
    files, notes = write(
        arguments.run,
        arguments.to,
        tasks=[name.strip() for name in arguments.task.split(",") if name.strip()],
        result=arguments.result,
        out=arguments.out,
        options=ExportOptions(
            **{name: getattr(arguments, name) for name in names},
            relationship=arguments.relationship,
        ),
    )
    for note in notes:
        print(f"tcb-bench: {note}", file=sys.stderr)  # noqa: T201
    for path in files[:MANY_FILES]:
        print(path)  # noqa: T201
    if len(files) > MANY_FILES:
        print(f"and {len(files) - MANY_FILES} more files beside them")  # noqa: T201
    return 0
