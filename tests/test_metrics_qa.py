"""EM, F1, containment, yes/no and refusals. Oracle: HotpotQA's rules worked out by hand; own labels."""

import pytest

from tcb_bench.metrics.qa import (
    contains_answer,
    exact_match,
    is_refusal,
    normalised,
    token_f1,
    yes_no,
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("The Salt Museum.", "salt museum"),
        ("  an   Apple a day, the end ", "apple day end"),
        ("U.S.A.", "usa"),
        ("1,200 km", "1200 km"),
        ("Anthem theory", "anthem theory"),
        ("", ""),
        ("...", ""),
        ("Über\xa0alles", "über alles"),
    ],
)
def test_normalisation_drops_case_punctuation_articles_and_blanks(text, form):
    assert normalised(text) == form


@pytest.mark.parametrize(
    ("text", "answer", "em", "f1"),
    [
        ("The Salt Museum", "salt museum", True, 1.0),
        ("salt museum of Ulm", "Salt Museum", False, 2 * 0.5 * 1 / 1.5),
        ("red red blue", "red green", False, 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("yes", "yes", True, 1.0),
        ("Yes, both are", "yes", False, 0.0),
        ("no", "no reason", False, 0.0),
        ("noanswer", "x", False, 0.0),
        ("", "x", False, 0.0),
        ("the", "a", True, 0.0),
        ("dog", "cat", False, 0.0),
    ],
)
def test_exact_match_and_f1_are_those_of_hotpotqa(text, answer, em, f1):
    assert exact_match(text, answer) is em
    assert token_f1(text, answer) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("text", "answer", "is_in"),
    [
        ("It stood in Brenvik until 1981.", "Brenvik", True),
        ("It stood in the Salt-Museum.", "the saltmuseum", True),
        ("Brenviker", "Brenvik", False),
        ("in 1981", "81", False),
        ("He sold church organs.", "church organs", True),
        ("church and organs", "church organs", False),
        ("a heron", "heron", True),
        ("Yes. Both are.", "yes", True),
        ("Both are, yes", "yes", False),
        ("No, one is older", "yes", False),
        ("Not both.", "no", False),
        ("", "x", False),
        ("anything", "...", False),
    ],
)
def test_an_answer_is_contained_as_whole_words_and_yes_or_no_by_the_first_word(text, answer, is_in):
    assert contains_answer(text, answer) is is_in


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Yes", "yes"),
        ("NO.", "no"),
        (' "Yes," they say', "yes"),
        ("**No**", "no"),
        ("Northern", None),
        ("not at all", None),
        ("", None),
    ],
)
def test_the_first_word_is_yes_or_no(text, word):
    assert yes_no(text) == word


REFUSALS = [
    "The retrieved document does not provide the birthplace of the painter.",
    "The documents do not mention where the ferry was built.",
    "The provided context doesn't specify which year the bridge opened.",
    "I cannot determine the answer from the documents.",
    "I can't find the name of the founder in the given passages.",
    "There is no information about the town in the text.",
    "There's not enough information to answer the question.",
    "It is not possible to say which of the two rivers is longer based on the documents.",
    "The answer cannot be determined from the context.",
    "The nationality of the sculptor is not mentioned in the documents.",
    "The year is not specified in the provided text.",
    "I am unable to answer this question.",
    "I'm not able to determine which prize she won.",
    "I do not know.",
    "I don't have enough information to answer.",
    "Unknown.",
    "Not specified.",
    "Not mentioned in the documents.",
    "No information is given about the director.",
    "Insufficient information to determine the answer.",
    "The text never says who wrote the play.",
    "Based on the documents, it is unclear which company owned the mill.",
    "It is unknown whether both lakes are freshwater lakes.",
    "The given documents do not contain an answer.",
    "The passage does not explicitly state the mayor's name.",
    "The documents provided do not tell us when the yard closed.",
    "Sorry, I could not find an answer.",
    "The information provided does not include her date of birth.",
    "The capital is not given in the context.",
    "We cannot conclude from the documents that the two were related.",
    "The context fails to mention the author.",
    "It is impossible to determine the winner without more information.",
    "I don’t know the answer.",
    "The question cannot be answered with the given documents.",
    "The name of the ship was never mentioned in the passages.",
    "The article does not name the architect.",
]
ANSWERS = [
    "He cannot swim.",
    "The yard stood in Brenvik.",
    "Yes, both lakes are freshwater lakes.",
    "No, the Teal was built later.",
    "The museum does not open on Mondays.",
    "She did not provide her brother with a horse.",
    "The will does not mention the bridge, so the town kept it.",
    "There is no bridge across the sound.",
    "There is no evidence of life on the island's north shore.",
    "The painter is unknown outside Norway.",
    "The composer was not known for symphonies.",
    "It is not possible to cross the river in winter.",
    "I know that the ferry was built in 1974.",
    "The Unknown Soldier was written by Linna.",
    "The company could not find a buyer.",
    "The king did not give an answer to the envoy.",
    "The film was not mentioned among the winners.",
    "They can't agree on a name.",
    "He never told anyone where the gold was.",
    "The documents show that the yard was in Brenvik.",
    "According to the documents, the prize was the Red Die.",
    "The text says it was founded in 1979.",
    "The information centre is in the old mill.",
    "The source of the river is in the Hask hills.",
    "The passage through the strait is narrow.",
    "Her novel contains no dialogue.",
    "The author of the article is Desmond Achterberg.",
    "The book was not available in shops until 1990.",
    "No Way Out is a film by Roger Donaldson.",
    "The game does not include dice.",
    "The lighthouse was not included in the sale.",
    "It is clear that both are ships.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_what_says_that_the_documents_do_not_tell_is_a_refusal(text):
    assert is_refusal(text)
    assert is_refusal(f"Well. {text}") or text[0] in "UNI"  # some only count as the whole answer


@pytest.mark.parametrize("text", ANSWERS)
def test_what_is_said_of_the_world_is_none(text):
    assert not is_refusal(text)
