"""Case 13: a canary key is in no file, no line and no traceback. Oracle: a search for its bytes.

The store's blobs are read through zlib, since a search of the file would not see into them.
"""

import logging
import sqlite3
import traceback
import zlib

import fault_bodies as bodies
import pytest
from chat_runs import ask, environment, run_api, text_request, write_tasks
from fault_plan import Fault, Reply, Rule
from fault_server import fault_server
from fault_status import invalid_key, status_error

from tcb_bench.__main__ import main
from tcb_bench.errors import ModelError, TcbBenchError
from tcb_bench.models.chat_load import load_chat
from tcb_bench.models.resolve import resolve

CANARY = "sk-canary-4f9d2c7b8a6e"
PIECE = b"canary-4f9d2c7b8a6e"
WAYS = {  # how the key is given: model arguments, variable
    "the provider's variable": ("", "OPENAI_API_KEY"),
    "api_key=": (f"api_key={CANARY}", None),
    "a named variable": ("api_key_env=MY_KEY", "MY_KEY"),
}


def echo_in_text():
    """The model's text repeats the key, as a server that shows a request's headers would."""

    def change(reply):
        for choice in reply["choices"]:
            choice["message"]["content"] = f"Bearer {CANARY} is 4"
            choice["message"]["reasoning_content"] = f"they sent {CANARY}"
        return {**reply, "id": CANARY, "system_fingerprint": CANARY}

    return Fault("echo_in_text", change=change)


def echo_in_page():
    page = f"<html><body>Forbidden: Authorization: Bearer {CANARY}</body></html>".encode()
    return Fault("echo_in_page", reply=lambda arrival: Reply(403, page, (), "text/html"))


ECHOES = {
    "a 401": invalid_key(),
    "a page": echo_in_page(),
    "a text": echo_in_text(),
    "a 400 of a condition": status_error("no", 400, f"temperature not supported for {CANARY}", param="temperature"),
    "a 500": status_error("down", 500, f"cannot serve {CANARY}"),
    "a 200 with an error": Fault("in body", reply=lambda arrival: Reply(200, f'{{"error": {{"message": "{CANARY}", "code": 503}}}}'.encode())),
}  # fmt: skip


def everything_below(folder):
    """Path -> bytes of each file, and what the stores' rows hold once unpacked."""
    found = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.parent.name != "tasks"}  # fmt: skip
    for path in folder.rglob("store.sqlite"):
        with sqlite3.connect(path) as store:
            for key, *blobs in store.execute("SELECT key, request, response FROM responses"):
                found[f"{path}:{key}"] = b"".join(map(zlib.decompress, blobs))
    assert found
    return found


def assert_clean(folder, *texts):
    leaks = [name for name, data in everything_below(folder).items() if PIECE in data]
    assert leaks == []
    assert not [text for text in texts if PIECE.decode() in text]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("echo", ECHOES)
def test_case_13_no_way_to_give_a_key_and_no_echo_of_it_leaves_a_trace(way, echo, tmp_path, capfd):
    args, variable = WAYS[way]
    lines, errors = [], []
    with fault_server(ECHOES[echo]) as server, environment(**({variable: CANARY} if variable else {})):  # fmt: skip
        try:
            outcome = run_api(server, tmp_path, "rivers", args=args, lines=lines, key=None, max_retries=0)  # fmt: skip
            assert outcome.path.is_file()
        except TcbBenchError:
            errors.append(traceback.format_exc())
        assert server.chats[0].headers["authorization"] == f"Bearer {CANARY}"
    out, err = capfd.readouterr()
    assert_clean(tmp_path, out, err, *lines, *errors)
    assert bool(errors) == (echo in ("a 401", "a page"))


def test_case_13_an_unknown_models_probe_leaves_no_trace(tmp_path):
    plan = [Rule(status_error("no", 400, f"seed refused for {CANARY}"), when=lambda a: "seed" in a.body), echo_in_text()]  # fmt: skip
    with fault_server(plan) as server:
        run_api(server, tmp_path, "sums", "compatible/m", f"api_key={CANARY}", key=None)
    assert (tmp_path / "runs" / "compatible__m" / "capability.json").is_file()
    assert_clean(tmp_path)


def test_case_13_the_command_line_with_every_librarys_debug_log(tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2", "httpcore2", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    with fault_server(Rule(bodies.cut_body(), first=1)) as server, environment(OPENAI_API_KEY=CANARY):  # fmt: skip
        words = f"run --model openai/gpt-4o --tasks sums --model_args base_url={server.url}"
        words += f" --include_path {write_tasks(tmp_path / 'tasks')} --output_path {tmp_path / 'runs'}"  # fmt: skip
        command = [*words.split(), "--bert_score_model", "none"]
        assert main(command) == 0 and len(server.chats) >= 8
        server.plan = invalid_key()
        assert main([*command, "--fresh"]) == 1
    out, err = capfd.readouterr()
    assert "Traceback" not in err and "HTTP 401: Incorrect API key provided: ***" in err
    assert "chat/completions" in caplog.text  # the SDK's own log of its requests
    assert_clean(tmp_path, out, err, caplog.text)


def test_case_13_a_traceback_with_its_local_variables():
    """A bug behind the reply: the frames from there up to the caller, with what they hold."""

    def broken(index, response):
        raise ZeroDivisionError("a bug")

    with fault_server() as server:
        spec = resolve("openai/gpt-4o", f"base_url={server.url},api_key={CANARY}")
        lm = load_chat(spec, None)
        with pytest.raises(ZeroDivisionError) as caught:
            lm.generate_traced([text_request("Hi")], on_response=broken)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(told.format())
    assert "ZeroDivisionError" in text and "lm = " in text
    assert CANARY not in text and CANARY not in repr(spec) and CANARY not in repr(lm.connection)


def test_case_13_an_error_of_the_sdk_is_no_context_of_ours():
    with fault_server(invalid_key()) as server:
        spec = resolve("openai/gpt-4o", f"base_url={server.url},api_key={CANARY}")
        lm = load_chat(spec, None)
        with pytest.raises(ModelError) as caught:
            lm.generate_traced([text_request("Hi")])
    text = "".join(traceback.format_exception(caught.value))
    assert CANARY not in text and "openai." not in text


@pytest.mark.parametrize("key", ["none", "EMPTY", "ollama"])
def test_a_word_that_stands_for_no_key_is_no_secret(key, tmp_path):
    text = f"{key} of the EMPTY none ollama"
    with fault_server(answer=lambda body, index: text) as server:
        named = "" if key == "none" else f",api_key={key}"
        spec = resolve("compatible/m", f"base_url={server.url}{named}")
        lm = load_chat(spec, tmp_path / "log")
        [found] = ask(lm, ["Hi"])
    assert found.text == text
