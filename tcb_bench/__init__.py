"""Token Constraint Bound and TempPerturb-Eval: how firmly a language model stands by its answer."""

from tcb_bench.version import __version__

__all__ = ["__version__"]
