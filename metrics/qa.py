"""Placeholder until the real module stands: overwrite this file freely."""


def contains_answer(text: str, answer: str) -> bool:
    return answer.lower() in text.lower()


def exact_match(text: str, answer: str) -> bool:
    return text.strip().lower() == answer.strip().lower()


def token_f1(text: str, answer: str) -> float:
    return float(exact_match(text, answer))


def yes_no(text: str) -> str | None:
    return None


def is_refusal(text: str) -> bool:
    return False


def is_garbled(text: str) -> bool:
    return False
