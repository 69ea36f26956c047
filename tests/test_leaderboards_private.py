"""What an entry keeps to itself. Oracle: tables of names and secrets written by hand."""

import getpass
import json
from pathlib import Path

import pytest
from board_entries import make_entry
from submit_runs import MODEL_ID, written

from tcb_bench.errors import DataError, TcbBenchError, UsageError
from tcb_bench.leaderboards.entry import Entry, EntrySample
from tcb_bench.leaderboards.entry_files import read_samples
from tcb_bench.leaderboards.submit import Submission
from tcb_bench.leaderboards.submit_names import public_facts, public_model, quantisation
from tcb_bench.leaderboards.submit_private import check_entry, checked_samples, finding, texts
from tcb_bench.records import TaskRecord

PRIVATE = {
    "/home/jo/models/llama": "an absolute path",
    "model:/srv/weights/x": "an absolute path",
    "loaded from '/Users/jo/a.gguf'": "an absolute path",
    "/data": "an absolute path",
    "file:///etc/passwd": "an absolute path",
    "~/models/x": "a path of a home folder",
    "at ~jo/models": "a path of a home folder",
    "C:\\Users\\jo": "a Windows path",
    "D:/models/x": "a Windows path",
    "\\\\server\\share": "a Windows path",
    "jo.doe@example.org": "an e-mail address",
    "key sk-proj-abcdefghijklmnop1234": "an API key",
    "hf_abcdefghijklmnopqrstuvwx": "an API key",
    "ghp_abcdefghijklmnopqrstuvwx": "an API key",
    "AKIAIOSFODNN7EXAMPLE": "an API key",
    "Authorization: Bearer abcdef123456": "an API key",
    "https://jo:pw@example.org/x": "credentials in an address",
    "https://example.org/x?api_key=1": "a secret in an address",
    "https://example.org/x?a=1&access_token=2": "a secret in an address",
}
PUBLIC = [
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "task:mmlu_tcb|v:1|model:org/name|backend:hf|data:hub@c30699e8356d#0a1b2c3d|shots:0",
    "sentence@hf/org/name-1.5b@main:175627c8",
    "philosophy/test/4",
    "https://huggingface.co/org/name/blob/main/README.md?download=true",
    "temperature=0.6,context=replace_half",
    "eps of delta = eps / ||J||_F",
    "log10 of length in h-space",
    "roberta-large_L17_no-idf_version=0.3.12(hug_trans=5.24.0) tokens<=512",
    "task-force-abcdefghijklmnop",
    "N/A",
    "2026-01-31",
    "@handle",
]


@pytest.mark.parametrize(("text", "kind"), PRIVATE.items(), ids=PRIVATE)
def test_private_texts_are_found(text, kind):
    assert finding(text) == kind


@pytest.mark.parametrize("text", PUBLIC)
def test_public_texts_are_not(text):
    assert finding(text) is None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A made entry as JSON, and its first sample."""
    path = make_entry(tmp_path_factory.mktemp("entries"), "org/model", "hotpotqa_tempperturb", 6)
    sample = next(read_samples(path.with_name("hotpotqa_tempperturb.samples.jsonl.gz")))
    return json.loads(path.read_text()), sample


SECRET = "sk-abcdefghijklmnopqrstuvwxyz"
PLANTED = {
    "environment": lambda r: r["environment"].update(x=SECRET),
    "signature_parts.gen": lambda r: r["signature_parts"].update(gen=SECRET),
    "model.revision": lambda r: r["model"].update(revision=SECRET),
    "data.ids": lambda r: r["data"]["ids"].append(SECRET),
    "conditions.text_flags": lambda r: r["conditions"][0].update(text_flags={SECRET: 1}),
    "reference.generator": lambda r: r["reference"].update(generator=SECRET),
    "links": lambda r: r["links"].append(f"https://a/{SECRET}"),
    "missing": lambda r: r["missing"].append(SECRET),
}


@pytest.mark.parametrize("place", PLANTED)
def test_a_secret_anywhere_is_refused_by_its_field_and_not_repeated(made, place):
    record = json.loads(json.dumps(made[0]))
    check_entry(Entry.model_validate(record), "t")
    PLANTED[place](record)
    with pytest.raises(DataError, match=rf"t: {place}.* holds an API key") as caught:
        check_entry(Entry.model_validate(record), "t")
    assert SECRET not in str(caught.value)


def test_user_name_home_and_values_of_secret_variables_are_refused(made, monkeypatch):
    record = json.loads(json.dumps(made[0]))
    monkeypatch.setattr(getpass, "getuser", lambda: "jodoe")
    monkeypatch.setattr(Path, "home", lambda: Path("/x/jodoe-home"))
    monkeypatch.setenv("MY_API_KEY", "correct horse battery")
    for value, kind in (
        ("box of JoDoe", "the name of the user"),
        ("in/x/jodoe-home", "the home folder"),
        ("a correct horse battery b", "the value of MY_API_KEY"),
    ):
        bad = record | {"environment": {"host": value}}
        with pytest.raises(DataError, match=f"environment.host holds {kind}"):
            check_entry(Entry.model_validate(bad), "t")
    named = record | {"submitted_by": "jodoe"}  # what is public on purpose may be the name
    check_entry(Entry.model_validate(named), "t")


def test_samples_are_looked_at_one_by_one(made):
    good = made[1]
    bad = EntrySample.model_validate(good.model_dump(exclude_unset=True) | {"doc_id": "jo@x.org"})
    assert list(checked_samples([good, good], "t")) == [good, good]
    with pytest.raises(DataError, match="doc_id holds an e-mail address"):
        list(checked_samples([good, bad], "t"))


def test_every_text_of_a_record_is_seen():
    found = dict((text, place) for place, text in texts({"a": [{"b": "x"}], "c": {"d": ["y"]}}))
    assert found == {"a": "", "c": "", "b": "a", "x": "a.b", "d": "c", "y": "c.d"}


INFO = {"backend": "hf", "model": "org/name", "revision": "abc", "transformers_version": "5.0"}
NAMES = [
    ({}, None, "org/name"),
    ({"model": "demo", "revision": None}, None, "SmolLM2-135M-Instruct"),
    ({"model": "demo", "revision": None}, "org/other", "org/other"),
    ({"model": "/home/jo/m", "revision": None}, None, "--model-id"),
    ({"model": "models/m", "revision": None}, None, "--model-id"),  # looks like org/name, is none
    ({"model": "models/m", "revision": None}, "org/m", "org/m"),
    ({"peft": "jo/adapter"}, None, "adapter"),
    ({}, "/home/jo/m", "organisation/name"),
    ({}, "only-a-name", "organisation/name"),
    ({}, "a/../b", "organisation/name"),
    ({}, "a__b/c", "organisation/name"),
]


@pytest.mark.parametrize(("more", "given", "expected"), NAMES)
def test_the_model_has_a_public_name_or_one_is_asked_for(more, given, expected):
    try:
        found = public_model(INFO | more, given).id
    except TcbBenchError as error:
        assert expected in str(error)
        assert "/home/jo" not in str(error) or given
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, None),
        ({"quantization": None}, None),
        ({"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf", "quantization": {"x": 1}}, "gguf:Q4_1"),
        ({"gguf_file": "llama-3-8b-Q4_K_M.gguf"}, "gguf:Q4_K_M"),
        ({"gguf_file": "x-IQ2_XXS-00001-of-00003.gguf"}, "gguf:IQ2_XXS"),
        ({"gguf_file": "x.bf16.gguf"}, "gguf:BF16"),
        ({"gguf_file": "weights.gguf"}, "gguf"),
        ({"quantization": "awq_marlin"}, "awq_marlin"),
        (
            {"quantization": {"quant_method": "gptq", "bits": 4, "tokenizer": "/home/jo"}},
            "gptq:4bit",
        ),
        (
            {"quantization": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            "bitsandbytes:8bit",
        ),
        (
            {
                "quantization": {
                    "quant_method": "bitsandbytes",
                    "load_in_4bit": True,
                    "bnb_4bit_quant_type": "nf4",
                }
            },
            "bitsandbytes:nf4",
        ),
        ({"quantization": {"quant_method": "/home/jo/mine"}}, "unknown"),
        ({"gptqmodel": True}, "gptqmodel"),
    ],
)
def test_quantisation_in_a_word(info, expected):
    assert quantisation(info) == expected


@pytest.mark.parametrize(
    ("backend", "expected"), [("hf", "5.0"), ("vllm", "0.32"), ("openai", None)]
)
def test_the_version_is_that_of_the_back_end(backend, expected):
    info = {**INFO, "backend": backend, "vllm_version": "0.32"}
    assert public_model(info, "org/name").backend_version == expected


def test_names_of_folders_leave_the_signature_and_the_fields_together(made):
    record = made[0]
    bert = "jos-encoder_L6_no-idf_version=0.3.12 bert-score=0.3.13 revision=sha256:0a1b tokens<=512"
    parts = record["signature_parts"] | {
        "model": "hf//home/jo/m",
        "ref": "sentence@hf//home/jo/writer:175627c8",
        "bert": bert.replace(" ", "_"),
    }
    task = TaskRecord(
        signature="old",
        signature_parts=parts,
        data={**record["data"], "id": "/home/jo/sets/mine"},
        epsilon=1.0,
        sampling_defaults="model",
        weight_radius=None,
        limit=None,
        seed=0,
        reference=record["reference"] | {"generator": "hf//home/jo/writer"},
        bert_score=bert,
        resources={"paraphrase_model": "/home/jo/t5"},
        counts=record["counts"],
        usage=record["usage"],
        conditions={},
    )
    found = public_facts(task, public_model(INFO, None))
    assert found["signature"] == "|".join(f"{k}:{v}" for k, v in found["signature_parts"].items())
    assert found["signature_parts"]["model"] == "org/name"
    assert found["signature_parts"]["ref"] == "sentence@hf/local:175627c8"
    assert found["reference"].generator == "hf/local"
    assert found["data"].id == "mine"
    assert found["bert_score"].startswith("local_L6_no-idf")
    assert found["signature_parts"]["bert"] == found["bert_score"].replace(" ", "_")
    assert "jo" not in found["signature"]


@pytest.mark.parametrize(
    "given",
    [
        {"links": ("http://example.org",)},
        {"links": ("https://jo:pw@example.org/x",)},
        {"links": ("https://example.org/?token=abc",)},
        {"links": ("javascript:alert(1)",)},
        {"links": ("https://example.org/<script>",)},
        {"samples_url": "s3://bucket/x"},
        {"submitted_by": "jo@example.org"},
        {"submitted_by": " "},
    ],
)
def test_what_a_submitter_says_is_checked_too(given):
    with pytest.raises(UsageError, match="--"):
        Submission(**given)


@pytest.mark.slow
def test_no_file_of_a_real_entry_knows_where_the_run_was(tiny_run, tmp_path):
    import gzip

    for task in ("mmlu_tcb", "gsm8k_tcb", "phrases"):
        loaded = written(tiny_run, task, tmp_path, is_partial_ok=True)
        parts = (loaded.path.read_text(), gzip.decompress(loaded.samples.read_bytes()).decode())
        for text in parts:
            assert str(tiny_run.parent.parent) not in text
            assert "weights/" not in text
        assert loaded.entry.signature_parts["model"] == MODEL_ID
        assert loaded.entry.signature == "|".join(
            f"{name}:{value}" for name, value in loaded.entry.signature_parts.items()
        )
        assert loaded.entry.model.revision is None
