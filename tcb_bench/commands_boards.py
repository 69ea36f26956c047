"""What `submit`, `leaderboard` and `export` do once parsed: one call, one print, one exit code."""

from __future__ import annotations

import argparse


def submit(arguments: argparse.Namespace) -> int:
    """``tcb-bench submit``: entries of a run, checked, and what to do next."""
    raise NotImplementedError


def leaderboard(arguments: argparse.Namespace) -> int:
    """``tcb-bench leaderboard check | build | serve``."""
    return {"check": check, "build": build, "serve": serve}[arguments.board](arguments)


def check(arguments: argparse.Namespace) -> int:
    """Everything that entries say, computed again."""
    raise NotImplementedError


def build(arguments: argparse.Namespace) -> int:
    """The static site from the entries."""
    raise NotImplementedError


def serve(arguments: argparse.Namespace) -> int:
    """The site on loopback."""
    raise NotImplementedError


def export(arguments: argparse.Namespace) -> int:
    """``tcb-bench export``: a run in another format."""
    raise NotImplementedError
