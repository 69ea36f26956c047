"""Every Eval Ever 0.3.0, whose schemas and validator are the oracle of exports to it."""

import importlib.util
import os

import pytest


def every_eval():
    """Skips where the package is not there; in CI that is a failure.

    It asks for Python 3.12 and for much that its validator does not need, so the Makefile installs
    it alone; its schemas, validator and converter run on 3.11.
    """
    if importlib.util.find_spec("every_eval_ever") is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("every-eval-ever is not installed: `make test-env` installs it")
