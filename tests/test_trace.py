"""``tcb-bench trace``: numbers, terminal and files.

Oracles: transformers' own logits in float64; the rules written out by hand.
"""

import io
import json
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from rich.console import Console
from toy_models import byte_tokenizer

from tcb_bench.__main__ import main
from tcb_bench.config import TaskOptions
from tcb_bench.errors import ModelError, UnknownName, UsageError
from tcb_bench.metrics.dynamics import Loop
from tcb_bench.models.text import TextBuilder
from tcb_bench.responses import Failure, Generation
from tcb_bench.trace import Trace, TraceConfig, trace
from tcb_bench.trace_files import trace_record, write_trace
from tcb_bench.trace_text import Rule, traced_text, visible
from tcb_bench.trace_view import show, sparkline

PROMPT = "The hills said go, go, go, and the river said stay, stay, stay, and the child said"


def generation(pieces, log10_delta=None, **changes):
    """A generation with one token per piece and made-up numbers."""
    n = len(pieces)
    ends = np.cumsum([len(p) for p in pieces]).tolist()
    log10 = np.asarray(log10_delta if log10_delta is not None else np.sin(np.arange(n)))
    columns = {
        "delta_tcb": (10.0**log10).tolist(),
        "log10_delta_tcb": log10.tolist(),
        "flip_radius": (0.1 * 10.0**log10).tolist(),
        "p_top1": [0.5] * n,
        "p_top2": np.linspace(0.01, 0.4, n).tolist(),
        "nll": [0.7] * n,
        "entropy": [1.25] * n,
    }
    fields = {
        "text": "".join(pieces),
        "tokens": list(range(n)),
        "offsets": [[a, b] for a, b in zip([0, *ends], ends, strict=False)],
        "finish_reason": "length",
        "prompt_tokens": 3,
        "stability": columns,
        "positions": list(range(n)),
        "rule": "all",
    }
    return Generation(**(fields | changes))


def made_trace(pieces, prompt="a prompt", rule=None, **changes):
    rule = rule or Rule()
    return Trace(
        source="prompt",
        prompt=prompt,
        generation={"max_gen_toks": 9, "until": []},
        model={"name": "toy"},
        rule=rule,
        text=traced_text(generation(pieces, **changes), rule),
        signature="trace:prompt|model:toy",
    )


def printed(traced, width=80, encoding="utf-8", **options):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    show(traced, Console(file=file, width=width, highlight=False), **options)
    file.flush()
    return raw.getvalue().decode(encoding)


# ---- marks


def test_dips_and_loops_are_marked_where_the_rule_says():
    log10 = [1.0, 1.1, 0.9, 1.05, 0.95, -3.0, 1.0, 1.1, 0.9, 1.0, 1.05, 0.95]
    text = traced_text(
        generation(["x"] * 12, log10, tokens=[1, 2, 3, *[4, 5] * 4, 6]),
        Rule(window=None, threshold=2, least=6),
    )
    assert np.flatnonzero(text.dips).tolist() == [5]
    assert text.loop == Loop(3, 2, 8)
    assert text.marks(5) == ["dip", "loop"]
    assert [i for i in range(12) if "loop" in text.marks(i)] == [5, 6, 7, 8, 9, 10]
    assert text.record()["loop"]["onset"] == 5


def test_the_pieces_of_a_text_are_the_text_also_where_characters_have_several_tokens():
    tokenizer = byte_tokenizer()
    builder = TextBuilder(tokenizer)
    wanted = "a 🙂 é\n"
    for token in tokenizer(wanted)["input_ids"]:
        builder.push(token)
    builder.finish()
    n = len(builder.offsets)
    found = traced_text(generation(["x"] * n, text=builder.text, offsets=builder.offsets), Rule())
    assert "".join(found.pieces) == builder.text == wanted
    assert "" in found.pieces


@pytest.mark.parametrize("wrong", [{"threshold": 0.0}, {"window": 1}, {"repeats": 1}])
def test_a_rule_that_marks_nothing_or_everything_is_refused(wrong):
    with pytest.raises(UsageError, match="expected"):
        Rule(**wrong)


# ---- the terminal


def test_long_texts_are_elided_in_the_middle_unless_all_is_asked_for():
    traced = made_trace([f"w{i} " for i in range(60)])
    short, whole = printed(traced), printed(traced, is_whole=True)
    assert "36 tokens more: --all" in short
    assert "'w30 '" not in short
    assert "'w11 '" in short
    assert "'w48 '" in short
    assert all(f"'w{i} '" in whole for i in range(60))


def test_the_sparkline_shows_lowest_and_highest_and_every_mark_in_lines_that_fit():
    log10 = np.zeros(50)
    log10[[7, 30]] = [2.0, -1.0]
    log10 += 1e-3 * np.sin(np.arange(50))
    text = made_trace(["x"] * 50, log10_delta=log10, rule=Rule(window=None)).text
    head, *lines = sparkline(text, 20)
    assert "from -1.00" in head
    assert "to 2.00" in head
    bars, marks = "".join(lines[::2]), "".join(line.ljust(20) for line in lines[1::2])
    assert (bars[7], bars[30]) == ("█", "▁")
    assert marks[30] == "v"
    assert len(bars) == 50
    assert all(len(line) <= 20 for line in lines)


def test_control_characters_of_a_model_never_reach_the_terminal():
    traced = made_trace(["\x1b[2J", "\x07", "\u202e", "ok\n"], prompt="\x1b]0;owned\x07")
    shown = printed(traced)
    assert not any(c in shown for c in "\x1b\x07\u202e")
    assert "\\x1b[2J" in shown
    assert visible("a\tb") == "a\\tb"


def test_a_terminal_without_unicode_gets_plain_bars():
    shown = printed(made_trace(["x"] * 9), encoding="ascii")
    assert "log10 delta_tcb from" in shown
    assert "8" in shown


def test_a_quantity_that_an_old_record_lacks_is_a_dash_and_said():
    old = generation(["x"] * 9)
    del old.stability["entropy"]
    traced = made_trace(["x"] * 9, stability=old.stability)
    assert "entropy: not measured" in printed(traced)
    assert "entropy" not in trace_record(traced)["tokens"][0]


# ---- files


def test_the_json_is_strict_and_has_every_number(tmp_path):
    log10 = np.linspace(0, 1, 9)
    columns = generation(["x"] * 9, log10).stability
    columns["flip_radius"][3] = math.inf
    traced = made_trace(["x"] * 9, stability=columns)
    paths = write_trace(traced, tmp_path / "deep" / "out")
    assert [p.name for p in paths] == ["trace.json", "trace.png", "trace.svg", "trace.html"]
    record = json.loads(paths[0].read_text(), parse_constant=pytest.fail)
    assert record["tokens"][3]["flip_radius"] is None
    assert record["tokens"][4]["delta_tcb"] == pytest.approx(10**0.5)
    assert record["rule"]["threshold"] == 1.5
    assert paths[1].read_bytes()[:4] == b"\x89PNG"


def test_an_empty_text_is_written_and_said(tmp_path):
    traced = made_trace([], stability={})
    paths = write_trace(traced, tmp_path)
    assert [p.name for p in paths] == ["trace.json", "trace.html"]
    assert "no finite delta_tcb" in printed(traced)


# ---- the command


@pytest.fixture
def with_demo(monkeypatch, request):
    """``trace`` finds the demo model loaded already."""
    lm = request.getfixturevalue("hf_demo")

    @contextmanager
    def running(_):
        yield lm

    monkeypatch.setattr("tcb_bench.trace.running", running)
    return lm


@pytest.mark.slow
def test_the_command_prints_and_writes_what_transformers_logits_say(with_demo, capsys, tmp_path):
    words = ["trace", "--prompt", PROMPT, "--max_gen_toks", "28", "--out", str(tmp_path)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    record = json.loads((tmp_path / "trace.json").read_text())
    assert record["loop"] is not None
    assert "loop: from token" in shown
    assert str(tmp_path / "trace.html") in shown.replace("\n", "")
    ids = with_demo.tokenizer(PROMPT)["input_ids"]
    tokens = [token["id"] for token in record["tokens"]]
    with torch.no_grad():
        logits = with_demo.model(torch.tensor([[*ids, *tokens]])).logits[0].double()
    found = torch.distributions.Categorical(logits=logits[len(ids) - 1 : -1])
    top = found.probs.topk(2).values
    for name, expected in (
        ("entropy", found.entropy()),
        ("p_top1", top[:, 0]),
        ("p_top2", top[:, 1]),
        ("nll", -found.log_prob(torch.tensor(tokens))),
    ):
        ours = torch.tensor([token[name] for token in record["tokens"]]).double()
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
    assert "".join(token["text"] for token in record["tokens"]) == record["text"]


@pytest.mark.slow
def test_a_document_of_a_task_is_asked_as_a_run_asks_it(with_demo):
    options = TaskOptions(data="sample", gen_kwargs={"max_gen_toks": 3})
    found = trace(TraceConfig(model="demo", task="gsm8k_tcb_zeroshot", options=options))
    assert found.prompt.rstrip().endswith("Let's think step by step.")
    assert len(found.text) == 3
    assert found.generation["until"] == ["Question:"]
    name = found.source.split()[1]
    again = TraceConfig(model="demo", task="gsm8k_tcb_zeroshot", doc=name, options=options)
    assert trace(again).prompt == found.prompt
    with pytest.raises(UnknownName, match="no document of gsm8k_tcb_zeroshot 'test/x'"):
        trace(TraceConfig(model="demo", task="gsm8k_tcb_zeroshot", doc="test/x", options=options))


@pytest.mark.slow
def test_sampling_is_seeded_and_chat_is_asked_through_the_template(with_demo):
    def text(seed, **more):
        options = TaskOptions(seed=seed, gen_kwargs={"temperature": 1.5, "max_gen_toks": 8})
        return trace(TraceConfig(model="demo", prompt="Once", options=options, **more))

    assert text(1).text.tokens == text(1).text.tokens != text(2).text.tokens
    assert text(1, apply_chat_template=True).prompt.startswith("<|im_start|>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "what to trace"),
        (["--prompt", "x", "--tasks", "gsm8k_tcb"], "not allowed with"),
        (["--prompt", "x", "--doc", "test/1"], "name its task"),
        (["--tasks", "gsm8k_tcb,lvd_tcb"], "trace takes one task"),
        (["--prompt", "x", "--max_gen_toks", "0"], "max_gen_toks=0"),
        (["--prompt", "x", "--threshold", "-1"], "threshold=-1"),
        (["--prompt_file", "no-such-file.txt"], "cannot be read"),
    ],
)
def test_a_wrong_command_is_one_line(words, said, capsys):
    assert main(["trace", *words]) in (1, 2)
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_a_model_without_an_answer_is_an_error(monkeypatch):
    class Mute:
        info: dict = {}
        tokenizer = None

        def generate_traced(self, requests):
            return [Failure("too long")]

    @contextmanager
    def running(_):
        yield Mute()

    monkeypatch.setattr("tcb_bench.trace.running", running)
    with pytest.raises(ModelError, match="demo: too long"):
        trace(TraceConfig(model="demo", prompt="x"))
