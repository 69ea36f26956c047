"""What a user may get wrong with vLLM: one line each, before anything is measured.

Heads and runners that no small model has here are stood in for by objects of their shape.
"""

import json
from types import SimpleNamespace

import pytest
import torch

from tcb_bench.errors import ModelError, UsageError
from tcb_bench.models.resolve import load, resolve

vllm = pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
pytestmark = pytest.mark.vllm

USAGE = {
    "unknown argument": ("gpu_memory_utilisation=0.5", "did you mean 'gpu_memory_utilization'"),
    "device": ("device=cuda", "takes the device it was built for"),
    "data parallel": ("data_parallel_size=2", "tensor_parallel_size"),
    "pipeline parallel": ("pipeline_parallel_size=2", "tensor_parallel_size"),
    "generation config": ("generation_config=auto", "stated per request"),
    "dtype": ("dtype=bogus", "expected one of auto, float32"),
    "memory of states": ("stability_memory_mib=lots", "expected a number"),
    "ranks": ("tensor_parallel_size=two", "expected a number"),
    "a token": ("hf_token=abc", "HF_TOKEN"),
    "worker extension": ("worker_extension_cls=x.Y", "measures through it"),
}


@pytest.mark.parametrize("case", USAGE)
def test_arguments_that_cannot_be_are_one_line(case):
    given, said = USAGE[case]
    with pytest.raises(UsageError, match=said) as error:
        load(resolve("vllm/demo", given))
    assert "\n" not in str(error.value)


def test_an_unsupported_version_names_the_tested_ones(monkeypatch):
    monkeypatch.setattr(vllm, "__version__", "0.9.2")
    with pytest.raises(ModelError, match=r"vLLM 0\.9\.2 is not supported \(tested: 0\.32\.0"):
        load(resolve("vllm/demo"))


@pytest.mark.parametrize("module", ["lm_head", "embed_tokens"])
def test_an_adapter_on_the_head_is_refused_before_loading(tmp_path, module):
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"target_modules": ["q_proj", module]})
    )
    with pytest.raises(ModelError, match="changes the output head"):
        load(resolve("vllm/demo", f"lora_local_path={tmp_path}"))
    with pytest.raises(ModelError, match=r"no adapter_config\.json"):
        load(resolve("vllm/demo", f"lora_local_path={tmp_path / 'none'}"))


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(resolve(f"vllm/{tmp_path}"))
    with pytest.raises(ModelError, match="is not there"):
        load(resolve(f"vllm/{tmp_path / 'none'}"))


def test_a_model_without_a_head_is_refused(tmp_path):
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
    BertModel(BertConfig(num_hidden_layers=1, vocab_size=300, **sizes)).save_pretrained(tmp_path)
    from toy_models import byte_tokenizer

    byte_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="generate") as error:
        load(resolve(f"vllm/{tmp_path}"), tmp_path / "vllm.log")
    assert "\n" not in str(error.value)
    assert "vllm.log" in str(error.value)


def test_a_context_longer_than_the_model_has_is_refused():
    with pytest.raises(ModelError, match="max_model_len"):
        load(resolve("vllm/demo", "max_model_len=100000"))


@pytest.mark.full
def test_memory_that_is_not_there_is_said_with_the_log(tmp_path):
    log = tmp_path / "vllm.log"
    with pytest.raises(ModelError, match=r"[Mm]emory") as error:
        load(resolve("vllm/demo", f"kv_cache_memory_bytes={2**50}"), log)
    assert str(log) in str(error.value)
    assert "\n" not in str(error.value)


# ---- the worker's own checks, on stand-ins


def head(weight, apply=None, name="UnquantizedEmbeddingMethod"):
    method = type(name, (), {"apply": lambda _, layer, x, bias=None: (apply or plain)(x, weight)})()
    return SimpleNamespace(weight=weight if apply is None else None, quant_method=method)


def plain(x, weight):
    return x @ weight.T


def test_a_quantised_head_is_recovered_where_it_is_linear():
    from tcb_bench.models.vllm_head import head_weight

    weight = torch.randn(300, 17)
    hidden = torch.randn(3, 17)
    assert torch.equal(head_weight(head(weight), hidden), weight)
    quantised = head(weight, plain, "MarlinLinearMethod")
    torch.testing.assert_close(head_weight(quantised, hidden), weight)


def test_a_head_that_rounds_what_it_is_given_is_refused(monkeypatch):
    from tcb_bench.metrics.delta_tcb import Head
    from tcb_bench.models import vllm_worker
    from tcb_bench.models.vllm_head import Refusal, head_weight
    from tcb_bench.models.vllm_worker import Observer

    weight, hidden = torch.randn(300, 17), torch.randn(3, 17)

    def coarse(x, weight):
        return torch.round(x) @ weight.T

    found = head_weight(head(weight, coarse, "DynamicLinearMethod"), hidden)
    observer = object.__new__(Observer)
    observer._refused, observer._is_agreed, observer.processor = "", True, SimpleNamespace()
    observer.rows = SimpleNamespace(head=Head(found))
    observer.runner = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setattr(vllm_worker, "exchange", list)
    observer._probe = (hidden, coarse(hidden, weight))
    with pytest.raises(Refusal, match="do not reproduce the engine's logits"):
        observer.checked()


def test_a_head_that_cannot_be_read_says_why_when_rows_are_asked_for(monkeypatch):
    from tcb_bench.models import vllm_worker
    from tcb_bench.models.vllm_head import Refusal

    monkeypatch.setattr(vllm_worker, "exchange", list)
    observer = object.__new__(vllm_worker.Observer)
    observer.rows, observer._refused, observer._is_agreed = None, "", False
    observer.runner = SimpleNamespace(device=torch.device("cpu"))
    observer.processor = SimpleNamespace(org_vocab_size=300, scale=1.0, soft_cap=None)
    observer._given, observer.n_vocab, observer.limit = (head(torch.ones(300, 4)), None), 0, 2**20
    observer._latest = torch.randn(1, 4)
    monkeypatch.setattr(
        "tcb_bench.models.vllm_head.get_tp_group", lambda: SimpleNamespace(rank_in_group=0)
    )
    observer._keep(["tcb-1-abcdefgh"], [1], torch.tensor([3]), torch.tensor([7]))
    with pytest.raises(Refusal, match="rank 0 has no token of the vocabulary"):
        observer.collect([["1", None, []]])


def test_a_request_that_the_engine_gave_up_is_no_answer():
    from tcb_bench.models.vllm_engine import Engine, Job, sampling

    engine = Engine(SimpleNamespace())
    output = SimpleNamespace(
        request_id="tcb-1",
        finished=True,
        outputs=[SimpleNamespace(token_ids=[5], finish_reason="abort")],
    )
    with pytest.raises(ModelError, match="ended a request with 'abort'"):
        engine._advance([output], {"tcb-1": (0, Job([1], sampling(max_tokens=3)))})


def test_batch_sharded_sampling_is_refused():
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    from tcb_bench.models.vllm_head import Refusal
    from tcb_bench.models.vllm_worker import Observer

    model = torch.nn.Module()
    model.processor = object.__new__(LogitsProcessor)
    torch.nn.Module.__init__(model.processor)
    model.processor.logits_as_input = False
    runner = SimpleNamespace(
        get_model=lambda: model, sample=None, req_states=None, batch_sharder=object()
    )
    with pytest.raises(Refusal, match="batch-sharded"):
        Observer(runner, 300, 2**20)


def test_a_model_without_vllms_output_layer_is_refused():
    from tcb_bench.models.vllm_head import Refusal, processor_of

    with pytest.raises(Refusal, match="0 LogitsProcessor modules, expected one"):
        processor_of(torch.nn.Linear(3, 3))


def test_a_runner_that_lost_a_name_is_refused():
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    from tcb_bench.models.vllm_head import Refusal
    from tcb_bench.models.vllm_worker import Observer

    model = torch.nn.Module()
    model.processor = object.__new__(LogitsProcessor)
    torch.nn.Module.__init__(model.processor)
    model.processor.logits_as_input = False
    runner = SimpleNamespace(get_model=lambda: model, _sample=None, input_batch=None)
    with pytest.raises(Refusal, match="has no query_start_loc"):
        Observer(runner, 300, 2**20)
