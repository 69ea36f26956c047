"""Word salad against sentences.

Oracles: real sentences of Wikipedia (HotpotQA), nearly all of which are none; SmolLM2-135M sampled
here at T = 2, nearly all of whose answers are, and greedily; texts of our own, labelled by hand.
"""

import json
import random

import pytest

from tcb_bench.metrics.qa_garbled import is_garbled

SALAD = [
    "Icon END Lynn Terminal PlayersProtein Ver MineState FAQ previously GameMath https distilled nud",
    "Gardens smart replaces call young miracle winter sols terra copema street until cycle thivable "
    "blue stone running cheap pilgrim apples thin concurrent lymphocytes magnet quickly",
    "amеneforces laboulefresh() whodocumentsised\ufffd FIRST.academicSpanish",
    "\u0000\u0001 \ufffd\ufffd \ufffd x\ufffd",
]
SOUND = [
    "",
    "Paris",
    "Yes.",
    "SpongeBob SquarePants",
    "McDonald's and YouTube are both from the U.S.",
    "Tom Hanks, Meg Ryan, Bill Pullman, Ross Malinger, Rita Wilson, Victor Garber, Rob Reiner, "
    "Gaby Hoffmann, Carey Lowell, David Hyde Pierce, Dana Ivey",
    "La película fue dirigida por el mismo hombre que escribió la novela en la que se basa la serie.",
    "Der Film wurde von dem Mann gedreht, der auch das Buch geschrieben hat, und er ist sehr lang.",
    "Лев Толстой написал роман о войне и мире, который многие считают лучшим романом на свете.",
    "The city of the city of the city of the city of the city of the city of the city of the city.",
    "See https://example.org/a_b?c=d for it; the ratio and/or the rest is given there in full.",
]


@pytest.mark.parametrize("text", SALAD)
def test_salad_is_garbled(text):
    assert is_garbled(text)


@pytest.mark.parametrize("text", SOUND)
def test_names_lists_loops_and_other_languages_are_not(text):
    assert not is_garbled(text)


def test_real_sentences_are_taken_for_salad_in_at_most_three_of_a_thousand(shared_data):
    lines = (shared_data / "hotpotqa" / "hotpot.jsonl").read_text(encoding="utf-8").split("\n")
    records = map(json.loads, lines[:-1])
    texts = [s for r in records for part in r["context"]["sentences"] for s in part if s.strip()]
    sample = random.Random(0).sample(texts, 8_000)
    assert sum(map(is_garbled, sample)) <= 24


def test_a_response_that_derails_halfway_is_garbled_and_one_that_ends_badly_is_not():
    sentence = (
        "The film was directed by the man who had also written the novel on which it is based. "
    )
    salad = SALAD[1] + " "
    assert is_garbled(sentence * 4 + salad * 4)
    assert not is_garbled(sentence * 16 + salad)


@pytest.mark.slow
def test_answers_at_temperature_2_are_garbled_and_greedy_ones_are_not(smollm2, shared_data):
    import torch

    model, tokenizer = smollm2
    with (shared_data / "hotpotqa" / "hotpot.jsonl").open(encoding="utf-8") as lines:
        questions = [json.loads(next(lines))["question"] for _ in range(12)]
    chats = [[{"role": "user", "content": f"{q} Answer in a sentence."}] for q in questions]
    tokenizer.padding_side = "left"
    prompts = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, return_tensors="pt", padding=True, return_dict=True
    )

    def answers(**sampling):
        torch.manual_seed(0)
        out = model.generate(**prompts, max_new_tokens=32, pad_token_id=0, **sampling)
        return tokenizer.batch_decode(
            out[:, prompts.input_ids.shape[1] :], skip_special_tokens=True
        )

    hot = answers(do_sample=True, temperature=2.0, top_k=0, top_p=1.0)
    assert sum(map(is_garbled, hot)) >= 10
    assert sum(map(is_garbled, answers(do_sample=False))) == 0
