"""Files and batches of the played API: their life cycle advances with each poll.

Which lines fail is the plan's matter: ``Rule(server_error(), path=LINE, share=0.1)``,
``Rule(line_expired(), path=LINE, content="...")``, ``Rule(line_missing(), path=LINE, first=1)``.
What happens to whole batches is an option of ``fault_server(batches={...})``, see ``Course``.
"""

import json
import re
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from fault_plan import CHAT, Reply
from fault_status import error_reply
from fault_wire import json_reply

EXPIRED = "This request could not be executed before the completion window expired."
ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Course:
    """What becomes of a batch.

    Attributes:
        validating, in_progress: polls that still answer so (the reply to the creation is
            ``validating`` and no poll).
        fails_with: validation error {"code", "message"} of every batch; None: only what is wrong.
        expires_after: lines done when the whole batch expires; None: it does not.
        done_at_cancel: lines done when it is cancelled.
        in_order: lines come out as they went in; else the other way round, as OpenAI gives no
            order.
    """

    validating: int = 1
    in_progress: int = 1
    fails_with: dict | None = None
    expires_after: int | None = None
    done_at_cancel: int = 0
    in_order: bool = False


class Batches:
    """All files and batches; ``complete`` is (body of a line) -> (fault or None, Reply)."""

    def __init__(self, complete, **course):
        self.complete, self.course = complete, Course(**course)
        self.files, self.contents, self.batches, self.polls = {}, {}, {}, {}

    def reply(self, arrival, query, body):
        """The Reply to any request under /v1/files and /v1/batches."""
        path = arrival.path.removeprefix("/v1/").split("/")
        match [arrival.method, *path]:
            case ["POST", "files"]:
                return self.upload(arrival.headers["content-type"], body)
            case [_, "files", file, *rest] if file in self.files:
                return self.file(arrival.method, file, rest)
            case ["POST", "batches"]:
                return json_reply(self.create(arrival.body))
            case ["GET", "batches"]:
                return json_reply(self.listed(parse_qs(query)))
            case ["GET", "batches", batch] if batch in self.batches:
                return json_reply(self.poll(self.batches[batch]))
            case ["POST", "batches", batch, "cancel"] if batch in self.batches:
                return self.cancel(self.batches[batch])
        return error_reply(404, f"No such object: {path[-1]}", code="not_found")

    def upload(self, content_type, body):
        parts = parse_multipart(content_type, body)
        filename, content = parts["file"]
        return json_reply(self.keep(content, filename, parts["purpose"][1].decode()))

    def keep(self, content, filename, purpose):
        """Stores a file and returns its record."""
        name = f"file-{len(self.files) + 1:06d}"
        record = {"id": name, "object": "file", "bytes": len(content), "status": "processed"}
        record.update(created_at=int(time.time()), filename=filename, purpose=purpose)
        self.files[name], self.contents[name] = record, content
        return record

    def file(self, method, name, rest):
        if method == "DELETE":
            del self.files[name], self.contents[name]
            return json_reply({"id": name, "object": "file", "deleted": True})
        if rest == ["content"]:
            return Reply(200, self.contents[name], (), "application/octet-stream")
        return json_reply(self.files[name])

    def create(self, body):
        name = f"batch_{len(self.batches) + 1:06d}"
        batch = {"id": name, "object": "batch", "status": "validating", "errors": None}
        batch.update(body, created_at=int(time.time()), expires_at=int(time.time()) + 86400)
        batch.update(output_file_id=None, error_file_id=None)
        batch["request_counts"] = {"total": 0, "completed": 0, "failed": 0}
        self.batches[name], self.polls[name] = batch, 0
        return batch

    def listed(self, query):
        """The newest first, ``limit`` of them behind ``after``."""
        names = list(reversed(self.batches))
        if after := query.get("after"):
            names = names[names.index(after[0]) + 1 :]
        page = names[: int(query.get("limit", ["20"])[0])]
        ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
        data = [self.batches[name] for name in page]
        return {"object": "list", "data": data, **ends, "has_more": len(page) < len(names)}

    def poll(self, batch):
        """The batch's record after one more step."""
        self.polls[batch["id"]] += 1
        polls, course = self.polls[batch["id"]], self.course
        if batch["status"] == "cancelling":
            self.finish(batch, "cancelled", course.done_at_cancel)
        elif batch["status"] == "validating" and polls > course.validating:
            self.validate(batch)
        if batch["status"] == "in_progress" and polls > course.validating + course.in_progress:
            expires = course.expires_after is not None
            self.finish(batch, "expired" if expires else "completed", course.expires_after)
        return batch

    def validate(self, batch):
        lines = self.contents.get(batch["input_file_id"], b"").splitlines()
        errors = [self.course.fails_with] if self.course.fails_with else line_errors(lines, batch)
        if errors:
            data = [{"line": None, "param": None, **error} for error in errors]
            batch.update(status="failed", failed_at=int(time.time()))
            batch["errors"] = {"object": "list", "data": data}
        else:
            batch.update(status="in_progress", in_progress_at=int(time.time()))
            batch["request_counts"]["total"] = len(lines)

    def cancel(self, batch):
        if batch["status"] in ENDED:
            message = f"Cannot cancel a batch with status '{batch['status']}'."
            return error_reply(409, message)
        batch.update(status="cancelling", cancelling_at=int(time.time()))
        return json_reply(batch)

    def finish(self, batch, status, n_done):
        """Does the first ``n_done`` lines (None: all), writes both files; empty ones are absent."""
        lines = [json.loads(x) for x in self.contents[batch["input_file_id"]].splitlines()]
        done = lines if n_done is None else lines[:n_done]
        made = [record for line in done if (record := self.line(line)) is not None]
        made += [line_record(line, error=EXPIRED) for line in lines[len(done) :]]
        if not self.course.in_order:
            made.reverse()
        good = [m for m in made if m["response"] and m["response"]["status_code"] == 200]
        bad = [m for m in made if m not in good]
        for field, records in (("output_file_id", good), ("error_file_id", bad)):
            if records:
                content = "".join(f"{json.dumps(record)}\n" for record in records).encode()
                batch[field] = self.keep(content, f"{field}.jsonl", "batch_output")["id"]
        batch.update({"status": status, f"{status}_at": int(time.time())})
        batch["request_counts"].update(completed=len(good), failed=len(bad), total=len(lines))

    def line(self, line):
        """Output record of one line, or None where it goes missing."""
        fault, reply = self.complete(line["body"])
        if fault is not None and fault.name == "line_missing":
            return None
        if fault is not None and fault.name == "line_expired":
            return line_record(line, error=EXPIRED)
        body = json.loads(reply.body)
        response = {"status_code": reply.status, "request_id": "req_1", "body": body}
        return line_record(line, response=response)


def line_record(line, *, response=None, error=None):
    name = f"batch_req_{line['custom_id']}"
    error = error and {"code": "batch_expired", "message": error}
    return {"id": name, "custom_id": line["custom_id"], "response": response, "error": error}


def line_errors(lines, batch):
    """What validation finds: an empty file, a line that is no JSON, a repeated custom_id, ..."""
    if not lines:
        return [{"code": "empty_file", "message": "The input file is empty."}]
    errors, seen, models = [], set(), set()
    for number, text in enumerate(lines, 1):
        try:
            line = dict(json.loads(text))
        except (ValueError, TypeError):
            errors.append({"code": "invalid_json_line", "line": number, "message": "Not JSON."})
            continue
        missing = [name for name in ("custom_id", "method", "url", "body") if name not in line]
        if missing:
            message = f"Missing required parameter: '{missing[0]}'."
            errors.append(
                {"code": "missing_required_parameter", "line": number, "message": message}
            )
            continue
        if line["custom_id"] in seen:
            message = f"The custom_id '{line['custom_id']}' is used twice."
            errors.append({"code": "duplicate_custom_id", "line": number, "message": message})
        if line["url"] != batch["endpoint"] or line["url"] != CHAT or line["method"] != "POST":
            errors.append({"code": "mismatched_url", "line": number, "message": "Other url."})
        seen.add(line["custom_id"])
        models.add(line["body"].get("model"))
    if len(models) > 1:
        errors.append({"code": "mismatched_model", "message": "All lines must have one model."})
    return errors


def parse_multipart(content_type, body):
    """{field: (filename or "", bytes)} of a multipart/form-data body."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)[1].encode()
    fields = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, content = part[2:].split(b"\r\n\r\n", 1)
        name = re.search(rb'[; ]name="([^"]*)"', head)[1].decode()
        filename = re.search(rb'filename="([^"]*)"', head)
        fields[name] = (filename[1].decode() if filename else "", content[:-2])
    return fields
