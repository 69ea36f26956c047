"""Placeholder until the real module stands: overwrite this file freely."""

ROUGE_SIGNATURE = "placeholder"


def rouge(text: str, reference: str) -> dict[str, float]:
    return {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
