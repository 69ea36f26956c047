"""Loading a transformers model by its ``ModelSpec``, with failures that say what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tcb_bench.errors import ModelError, TcbBenchError
from tcb_bench.models.hf import HF
from tcb_bench.models.resolve import ModelSpec, demo_files

SECRET = re.compile(r"key|token$|secret|password", re.IGNORECASE)

ADVICE = (
    (r"does not recognize this architecture|model type .* does not", "update transformers, or "
     "give trust_remote_code=True if the model brings its own code"),
    (r"gguf|unpack|magic", "the GGUF file is damaged or of an unsupported kind; download it again"),
    (r"not a valid git identifier|revision", "check revision="),
    (r"couldn't connect|offline|LocalEntryNotFound|Max retries|resolve|local_files_only",
     "the hub cannot be reached; give a local folder, or set HF_HOME to a cache that has it"),
    (r"gated|401|403|restricted", "the model is gated; accept its terms and run `hf auth login`"),
    (r"trust_remote_code", "the model brings its own code; give trust_remote_code=True to run it"),
    (r"out of memory|can't allocate", "use a larger device, or dtype=bfloat16"),
)
"""What an exception's text tells -> what to do."""


def load_hf(spec: ModelSpec) -> HF:
    """The model of ``spec``, loaded and checked.

    Raises:
        ModelError: it cannot be, in one line.
    """
