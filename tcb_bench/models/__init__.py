"""The language models a run can drive, one module per back end."""
