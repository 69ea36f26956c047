"""Word salad. Oracle: labels of ours; real HotpotQA sentences; SmolLM2's own answers by temperature."""

import json

import pytest

from tcb_bench.metrics.garbled import is_garbled


@pytest.mark.parametrize(
    "text",
    [
        "The yard that launched the ferry stood in the town of Brenvik until 1981.",
        "Yes, both lakes are freshwater lakes.",
        "MV Marrin Rose",
        "",
        "O'Brien, McKay and de la Cruz sang U2's song \"One\" at 8pm in Oslo (Norway).",
        "Texas A&M met Xavier 72-54; the rock'n'roll band AC/DC played after the game.",
        "The documents do not say in which year the bridge was opened.",
        "Der Turm steht seit 1904 am Hafen von Kiel und ist heute ein Museum.",
    ],
)
def test_ordinary_answers_are_not_garbled(text):
    assert not is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        "Logic://ChallengeDiplomacromryptokiff MonsterAss نر ABC unazeizedeprojfre briefing Sternye",
        "Styles' members Octavalंёcox and Otto mov纽ete tours KnurgEIK[: render",
        "return foo(bar)[0]; printf{x} the answer __init__ self.var != null the",
        "tavern mass griffin forensic wise charity passion programme clutch dice seventh admine lens "
        "ability stems feet skyriven train adapt walnut",
        "the \x07 a \ufffd of \ufffd\ufffd in on it",
    ],
)
def test_code_mixed_scripts_and_words_without_grammar_are(text):
    assert is_garbled(text)


def test_few_real_sentences_are_taken_for_garbled(shared_data):
    lines = (shared_data / "hotpotqa" / "hotpot.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines[:300]]
    texts = [s for r in records for part in r["context"]["sentences"] for s in part]
    texts = [text for text in texts if len(text.split()) >= 6]
    assert len(texts) > 5000
    assert sum(map(is_garbled, texts)) < 0.015 * len(texts)


@pytest.mark.slow
def test_smollm2_is_garbled_at_temperature_two_and_not_at_zero(hf_demo):
    from toy_models import ask, generation

    cities = ["France", "Spain", "Italy", "Norway", "Kenya", "Peru", "Japan", "Egypt"]
    prompts = [f"Tell me about the capital of {city} and its history. It is" for city in cities]
    shares = []
    for temperature in (0.0, 2.0):
        wanted = [
            generation(temperature=temperature, seed=i, max_gen_toks=40)
            for i in range(len(prompts))
        ]
        asks = [ask("generate_traced", p, g) for p, g in zip(prompts, wanted, strict=True)]
        texts = [answer.text for answer in hf_demo.generate_traced(asks)]
        shares.append(sum(map(is_garbled, texts)) / len(texts))
    assert shares[0] == 0.0
    assert shares[1] >= 0.75
