"""The captured state and the head's reading, on random models of many architectures (case 25).

Expected quantities: ``reference`` in float64 on the base model's own last hidden state, with the
soft-cap, scale and bias written down here from each architecture's definition.
"""

import pytest
import torch
from torch import nn
from toy_models import ask, byte_tokenizer, generation, toy

from tcb_bench.errors import ModelError
from tcb_bench.metrics.delta_tcb import reference
from tcb_bench.models.hf import HF

TEXT = "Question: A or B? Answer:"
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}
CASES = [  # architecture, config, soft-cap, scale
    ("Llama", {}, None, 1.0),  # untied, 37 padded rows
    ("Gemma2", {"final_logit_softcapping": 5.0, "head_dim": 8}, 5.0, 1.0),  # tied
    ("NanoChat", {"final_logit_softcapping": 4.0}, 4.0, 1.0),
    ("RecurrentGemma", {"logits_soft_cap": 6.0, "num_hidden_layers": 3}, 6.0, 1.0),
    ("Cohere", {"logit_scale": 0.25}, None, 0.25),
    ("Granite", {"logits_scaling": 8.0}, None, 0.125),
    ("HyperCLOVAX", {"logits_scaling": 3.0}, None, 3.0),  # multiplies where Granite divides
    ("GPT2", GPT, None, 1.0),  # tied, learned positions
    ("GPTJ", {**GPT, "rotary_dim": 4}, None, 1.0),  # head with a bias
    ("Phi", {}, None, 1.0),  # head with a bias
    ("Bloom", {"n_head": 2, "n_layer": 2}, None, 1.0),  # no position_ids
    ("Mamba", {}, None, 1.0),  # recurrent
    ("OPT", {"ffn_dim": 24, "word_embed_proj_dim": 16}, None, 1.0),  # learned positions
]


def load(model, **options):
    return HF(model, tokenizer=byte_tokenizer(), device="cpu", **options)


@pytest.mark.parametrize(("architecture", "config", "softcap", "scale"), CASES)
def test_every_architecture_passes_the_check_and_matches_the_oracle(
    architecture, config, softcap, scale
):
    model = toy(architecture, **config)
    lm = load(model)
    (answer,) = lm.next_token([ask("next_token", TEXT, (" A", " B", " C", " D"))])
    ids = torch.tensor([lm.tokenizer(TEXT)["input_ids"]])
    with torch.no_grad():
        h = model.base_model(ids).last_hidden_state[:, -1]
        z = model(ids).logits[0, -1, :263].double()
    module = model.get_output_embeddings()
    bias = None if module.bias is None else module.bias[:263]
    setting = {"bias": bias, "softcap": softcap, "scale": scale}
    delta, flip = reference(h, module.weight[:263], **setting)
    found = answer.stability
    assert found["delta_tcb"] == pytest.approx(delta.item(), rel=1e-4)
    assert found["flip_radius"] == pytest.approx(flip.item(), rel=1e-4)
    assert found["h_norm"] == pytest.approx(h.norm().item(), rel=1e-5)
    assert found["p_top1"] == pytest.approx(torch.softmax(z, 0).max().item(), rel=1e-4)
    logprobs = torch.log_softmax(z, 0)[answer.choice_tokens]
    assert answer.choice_logprobs == pytest.approx(logprobs.tolist(), abs=1e-4)
    assert answer.token == int(z.argmax())


@pytest.mark.parametrize("architecture", ["Llama", "Bloom", "Mamba", "GPT2", "xLSTM"])
def test_a_prompt_has_the_same_quantities_alone_and_padded_in_a_batch(architecture):
    config = {"GPT2": GPT, "Bloom": {"n_head": 2, "n_layer": 2}}
    config["xLSTM"] = {"num_hidden_layers": 1}  # takes no attention_mask, so is never padded
    lm = load(toy(architecture, **config.get(architecture, {})))
    assert lm._engine.pads == (architecture != "xLSTM")
    texts = ["a", "bb and some more", "Answer:", "x" * 40, "zz"]
    requests = [ask("next_token", text, (" A", " B")) for text in texts]
    together = lm.next_token(requests)
    for request, answer in zip(requests, together, strict=True):
        (alone,) = lm.next_token([request])
        assert answer.token == alone.token
        assert answer.stability == pytest.approx(alone.stability, rel=1e-4, abs=1e-5)


def test_padded_vocabulary_rows_are_no_tokens():
    model = toy()
    with torch.no_grad():  # a padded row that would win everywhere and dominate every radius
        model.get_output_embeddings().weight[299] *= 1e3
    lm = load(model)
    assert lm.head.size == 263
    assert lm.info["vocab_rows"] == 300
    (answer,) = lm.next_token([ask("next_token", TEXT, ())])
    (text,) = lm.generate_traced([ask("generate_traced", TEXT, generation(stability_at="all"))])
    assert max(answer.token, answer.stability["flip_token"], *text.tokens) < 263
    assert answer.stability["v_eff"] <= 263
    assert lm.info["weight_radius"] < 50


class BeforeTheNorm(HF):
    def _capture_point(self):
        return self.model.model.norm


def test_a_state_taken_before_the_final_norm_is_refused():
    model = toy()
    with torch.no_grad():
        model.model.norm.weight.normal_(1, 0.5)
    with pytest.raises(ModelError, match=r"do not reproduce the model's logits \(max difference"):
        BeforeTheNorm(model, tokenizer=byte_tokenizer())


def test_an_unknown_scale_of_the_logits_is_refused():
    model = toy("Granite", logits_scaling=8.0)
    forward = model.forward

    def tempered(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = out.logits * 1.01
        return out

    model.forward = tempered
    with pytest.raises(ModelError, match="do not reproduce"):
        load(model)


def test_a_model_without_output_embedding_is_refused():
    model = toy()
    model.get_output_embeddings = lambda: None
    with pytest.raises(ModelError, match="no output embedding, and delta_tcb needs one"):
        load(model)


@pytest.mark.parametrize("weight", [None, torch.zeros(300, 16, dtype=torch.int8)])
def test_a_head_that_is_no_float_matrix_is_refused(weight):
    model = toy()
    module = nn.Module()
    module.weight = weight
    model.get_output_embeddings = lambda: module
    with pytest.raises(ModelError, match="plain weight matrix|stored as torch.int8"):
        load(model)


def test_a_model_that_gives_nan_is_refused():
    model = toy()
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    with pytest.raises(ModelError, match="not finite"):
        load(model)


@pytest.mark.parametrize(("dtype", "wide"), [(torch.bfloat16, 0.016), (torch.float16, 0.002)])
def test_half_precision_passes_within_its_rounding(dtype, wide):
    lm = load(toy("Gemma2", final_logit_softcapping=5.0, head_dim=8).to(dtype))
    states = torch.randn(2, lm.head.weight.shape[1], dtype=dtype)
    exact = lm.head.logits(states).to(dtype)
    assert lm.head.misfit(states, exact)[1] == pytest.approx(
        wide * float(exact.abs().max()), rel=0.05
    )
    assert lm.head.softcap == 5.0
    assert lm.identity["dtype"] == str(dtype).removeprefix("torch.")


def lora(model, **options):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False, **options)
    return peft.get_peft_model(model, config).eval()


def test_an_adapter_is_part_of_what_is_measured():
    plain = load(toy()).next_token([ask("next_token", TEXT, ())])[0]
    adapted = load(lora(toy())).next_token([ask("next_token", TEXT, ())])[0]
    assert adapted.stability["nll"] != pytest.approx(plain.stability["nll"], rel=1e-3)


def test_a_head_replaced_by_an_adapter_is_the_one_measured():
    model = lora(toy(), modules_to_save=["lm_head"])
    with torch.no_grad():
        model.get_base_model().lm_head.modules_to_save["default"].weight.mul_(2)
    assert load(model).head.weight.abs().max() > 5


def test_an_adapter_inside_the_head_is_refused_since_its_matrix_is_not_the_heads():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["lm_head"], init_lora_weights=False)
    with pytest.raises(ModelError, match="do not reproduce|plain weight"):
        load(peft.get_peft_model(toy(), config).eval())


def test_one_changed_weight_is_another_identity():
    model = toy()
    before = load(model).identity
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight += 1e-3
    after = load(model).identity
    assert before["weights_sha256"] != after["weights_sha256"]
    assert {**before, "weights_sha256": ""} == {**after, "weights_sha256": ""}


def test_states_that_turn_nan_fail_their_own_request_only():
    model = toy()
    lm = load(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[lm.tokenizer("z")["input_ids"]] = torch.nan
    requests = [ask("next_token", text, ()) for text in ("ab", "xyz", "cd")]
    kinds = [answer.kind for answer in lm.next_token(requests)]
    assert kinds == ["next_token", "failure", "next_token"]
    traced = generation(stability_at="all", max_gen_toks=3)
    requests = [ask("generate_traced", text, traced) for text in ("ab", "xyz", "cd")]
    answers = lm.generate_traced(requests)
    assert answers[1].state == "unscored"
    assert "not finite" in answers[1].reason
