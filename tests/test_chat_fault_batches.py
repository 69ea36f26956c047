"""Files and batches of the fault server, driven by the official SDK.

Oracles: the SDK's own models of files and batches; the public life cycle of a batch (validating,
in_progress, then completed, failed, expired or cancelled); ``answer`` for the text of each line.
"""

import json

import fault_bodies as bodies
import fault_status as status
import openai
import pytest
from fault_plan import CHAT, LINE, Rule
from fault_replies import answer
from fault_server import fault_server
from openai.types import Batch, FileObject


def body(number):
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": f"Frage {number}, café?"}]}


def line(number, **fields):
    made = {"custom_id": f"q{number}", "method": "POST", "url": CHAT, "body": body(number)}
    return {**made, **fields}


class Served:
    """A server and an SDK client, and what a test does with them."""

    def __init__(self, plan=None, **batches):
        self.context = fault_server(plan, batches=batches)

    def __enter__(self):
        self.server = self.context.__enter__()
        self.client = openai.OpenAI(base_url=self.server.url, api_key="x", max_retries=0)
        return self

    def __exit__(self, *error):
        self.client.close()
        return self.context.__exit__(*error)

    def create(self, lines, **fields):
        content = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in lines).encode()
        file = self.client.files.create(file=("in.jsonl", content), purpose="batch")
        FileObject.model_validate(file.to_dict())
        assert self.client.files.content(file.id).content == content
        made = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
        return self.client.batches.create(**made, **fields)

    def poll(self, batch):
        got = self.client.batches.retrieve(batch.id)
        Batch.model_validate(got.to_dict())
        return got

    def ended(self, batch):
        for _ in range(10):
            got = self.poll(batch)
            if got.status in ("completed", "failed", "expired", "cancelled"):
                return got
        raise AssertionError(f"still {got.status} after 10 polls")

    def records(self, file):
        if file is None:
            return {}
        records = map(json.loads, self.client.files.content(file).text.splitlines())
        return {record["custom_id"]: record for record in records}


def test_a_batch_goes_through_its_states_and_every_line_has_its_text():
    with Served(validating=2, in_progress=1) as served:
        batch = served.create([line(i) for i in range(5)], metadata={"run": "7"})
        states = [batch.status, *(served.poll(batch).status for _ in range(5))]
        assert states == ["validating"] * 3 + ["in_progress", "completed", "completed"]
        done = served.poll(batch)
        assert done.metadata == {"run": "7"}
        assert done.request_counts.to_dict() == {"total": 5, "completed": 5, "failed": 0}
        records = served.records(done.output_file_id)
        assert list(records) == ["q4", "q3", "q2", "q1", "q0"]  # not in the order of the input
        for number in range(5):
            response = records[f"q{number}"]["response"]
            text = response["body"]["choices"][0]["message"]["content"]
            assert (response["status_code"], text) == (200, answer(body(number)))
        assert done.error_file_id is None


def test_lines_can_fail_expire_or_be_missing():
    plan = [
        Rule(status.server_error(503), path=LINE, content="Frage 1,"),
        Rule(status.status_error("odd", 400, "no", code="x"), path=LINE, content="Frage 2,"),
        Rule(bodies.line_expired(), path=LINE, content="Frage 3,"),
        Rule(bodies.line_missing(), path=LINE, content="Frage 4,"),
        Rule(bodies.empty_text(), path=LINE, content="Frage 5,"),
    ]
    with Served(plan) as served:
        done = served.ended(served.create([line(i) for i in range(6)]))
        good, bad = served.records(done.output_file_id), served.records(done.error_file_id)
        assert (sorted(good), sorted(bad)) == (["q0", "q5"], ["q1", "q2", "q3"])
        assert bad["q1"]["response"]["status_code"] == 503
        assert bad["q2"]["response"]["body"]["error"]["code"] == "x"
        assert (bad["q3"]["response"], bad["q3"]["error"]["code"]) == (None, "batch_expired")
        assert good["q5"]["response"]["body"]["choices"][0]["message"]["content"] == ""
        counts = done.request_counts
        assert (done.status, counts.completed, counts.failed) == ("completed", 2, 3)
        assert [arrival.body for arrival in served.server.requests if arrival.path == LINE] == [
            body(i) for i in range(6)
        ]


def test_a_batch_can_expire_half_way():
    with Served(expires_after=2) as served:
        done = served.ended(served.create([line(i) for i in range(5)]))
        assert done.status == "expired"
        assert sorted(served.records(done.output_file_id)) == ["q0", "q1"]
        left = served.records(done.error_file_id)
        assert {name: left[name]["error"]["code"] for name in left} == dict.fromkeys(
            ["q2", "q3", "q4"], "batch_expired"
        )


INVALID = [
    ([], "empty_file"),
    ([line(1), line(1)], "duplicate_custom_id"),
    ([line(1, url="/v1/embeddings")], "mismatched_url"),
    ([line(1), line(2, body={**body(2), "model": "o3"})], "mismatched_model"),
    ([{"custom_id": "a"}], "missing_required_parameter"),
    (["no object"], "invalid_json_line"),
]


@pytest.mark.parametrize(("lines", "code"), INVALID)
def test_a_file_that_is_not_right_fails_the_validation(lines, code):
    with Served() as served:
        done = served.ended(served.create(lines))
        assert (done.status, done.errors.data[0].code) == ("failed", code)
        assert (done.output_file_id, done.error_file_id) == (None, None)


def test_a_whole_batch_can_be_told_to_fail():
    error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
    with Served(fails_with=error) as served:
        done = served.ended(served.create([line(1)]))
        assert (done.status, done.errors.data[0].code) == ("failed", "token_limit_exceeded")


def test_a_cancelled_batch_keeps_what_was_done():
    with Served(done_at_cancel=1) as served:
        batch = served.create([line(1), line(2)])
        assert served.client.batches.cancel(batch.id).status == "cancelling"
        done = served.poll(batch)
        assert done.status == "cancelled"
        assert list(served.records(done.output_file_id)) == ["q1"]
        with pytest.raises(openai.ConflictError):
            served.client.batches.cancel(batch.id)


def test_batches_are_listed_newest_first_in_pages():
    with Served() as served:
        made = [served.create([line(i)]).id for i in range(5)]
        page = served.client.batches.list(limit=2)
        assert [batch.id for batch in page.data] == made[:2:-1]
        assert page.has_more
        assert [batch.id for batch in served.client.batches.list(limit=2)] == made[::-1]


def test_files_are_described_deleted_and_then_unknown():
    with Served() as served:
        file = served.client.files.create(file=("a b.jsonl", b"1\r\n\r\n2"), purpose="batch")
        assert (file.filename, file.bytes, file.purpose) == ("a b.jsonl", 6, "batch")
        assert served.client.files.retrieve(file.id).id == file.id
        assert served.client.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            served.client.files.content(file.id)
        with pytest.raises(openai.NotFoundError):
            served.client.batches.retrieve("batch_none")


def test_a_batch_whose_creation_was_not_answered_is_there_all_the_same():
    creation = Rule(bodies.closed(), path="/v1/batches", when=lambda asked: asked.method == "POST")
    with Served(creation) as served:
        with pytest.raises(openai.APIConnectionError):
            served.create([line(1)])
        assert len(served.client.batches.list().data) == 1
        served.server.plan = Rule(status.server_error(), path="/v1/batches")
        with pytest.raises(openai.InternalServerError):
            served.create([line(1)])
        served.server.plan = None
        assert len(served.client.batches.list().data) == 1
