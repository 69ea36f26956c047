"""BERTScores put on rows, kept, and not computed twice. Oracle: BertScorer asked directly."""

import pytest

from tcb_bench.bert_rows import TextScorer, add_distances, make_scorer
from tcb_bench.config import TaskOptions
from tcb_bench.errors import ModelError, UsageError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scorer():
    return make_scorer(TaskOptions(bert_score_model="demo"))


def samples():
    def rows(*texts):
        return [{"repeat": i, "text": text, "scores": {"f1": 0.0}} for i, text in enumerate(texts)]

    return [
        {"reference": "The yard stood in Brenvik.", "rows": rows("In Brenvik.", "In Brenvik.", "")},
        {"reference": "Yes, both are lakes.", "rows": rows("Yes.", "No, they are rivers.")},
        {"reference": "x", "rows": [{"repeat": 0, "state": "error"}]},
        {"rows": rows("no reference")},
    ]


def test_every_row_with_text_and_reference_has_the_scores_of_its_pair(scorer, tmp_path):
    found = samples()
    scorer.add(found, tmp_path)
    pairs = [(row["text"], s["reference"]) for s in found[:2] for row in s["rows"]]
    direct = scorer.encoder.score(pairs)
    rows = [row for s in found[:2] for row in s["rows"]]
    for row, score in zip(rows, direct, strict=True):
        assert row["scores"]["bertscore_f1"] == pytest.approx(score.f1, abs=1e-6)
        assert row["scores"]["bertscore_precision"] == pytest.approx(score.precision, abs=1e-6)
        assert row["scores"]["f1"] == 0.0
    assert rows[2]["score_flags"] == ["empty_candidate"]
    assert rows[2]["scores"]["bertscore_f1"] == 0.0
    assert "scores" not in found[2]["rows"][0]
    assert found[3]["rows"][0]["scores"] == {"f1": 0.0}


def test_the_reasoning_of_a_row_is_not_compared(scorer, tmp_path):
    thought = {"repeat": 0, "text": "So Oslo?</t>In Brenvik.", "reasoning_chars": 12, "scores": {}}
    found = [{"reference": "The yard stood in Brenvik.", "rows": [thought]}]
    scorer.add(found, tmp_path)
    [direct] = scorer.encoder.score([("In Brenvik.", found[0]["reference"])])
    assert thought["scores"]["bertscore_f1"] == pytest.approx(direct.f1, abs=1e-6)
    assert thought["text"] == "So Oslo?</t>In Brenvik."


def test_what_was_scored_is_not_scored_again_and_only_new_texts_are(scorer, tmp_path, monkeypatch):
    scorer.add(samples(), tmp_path)
    asked = []
    original = type(scorer.encoder).score

    def noted(encoder, pairs, on_scored=None):
        asked.extend(pairs)
        return original(encoder, pairs, on_scored)

    monkeypatch.setattr(type(scorer.encoder), "score", noted)
    again = samples()
    again[1]["rows"].append({"repeat": 2, "text": "A new one.", "scores": {}})
    scorer.add(again, tmp_path)
    assert asked == [("A new one.", "Yes, both are lakes.")]
    other = make_scorer(TaskOptions(bert_score_model="demo", bert_score_layer=3))
    other.add(samples(), tmp_path)
    assert len(asked) == 1 + 4  # another layer is another score: four distinct pairs


def test_a_changed_text_says_how_far_it_went(scorer):
    note = {"kind": "ner", "flags": [], "counts": {"masked": 1}}
    found = [
        {
            "rows": [],
            "perturbation": {"context": {**note, "before": "a b c d", "after": "a b c d"}},
        },
        {"rows": [], "perturbation": {"context": {**note, "before": "a b", "after": "c d"}}},
        {"rows": [], "perturbation": {"context": {**note, "before": "a b", "after": ""}}},
    ]
    add_distances(found, scorer.encoder)
    same, other, nothing = (s["perturbation"]["context"] for s in found)
    assert same["token_overlap"] == 1.0
    assert same["embedding_similarity"] == pytest.approx(1.0, abs=1e-5)
    assert same["is_pseudo_relevant"] is True
    assert other["token_overlap"] == 0.0
    assert other["embedding_similarity"] < 0.99
    assert nothing["embedding_similarity"] is None
    assert "before" not in same


def test_none_leaves_bert_score_out_and_what_cannot_be_loaded_is_one_line(tmp_path):
    assert make_scorer(TaskOptions(bert_score_model="none")).encoder is None
    rows = samples()
    TextScorer().add(rows, tmp_path)
    assert rows[0]["rows"][0]["scores"] == {"f1": 0.0}
    for name, kind in (
        (str(tmp_path), (UsageError, ModelError)),
        ("no/such-model", (UsageError, ModelError)),
    ):
        with pytest.raises(kind) as caught:
            make_scorer(TaskOptions(bert_score_model=name, bert_score_layer=2))
        assert "\n" not in str(caught.value)
        assert "bert_score_model" in str(caught.value)
