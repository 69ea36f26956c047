"""A model on the fault server in batch mode, asked directly, and what its answers must be."""

from collections import Counter

from chat_runs import chat, text_request
from fault_plan import LINE
from fault_replies import answer

from tcb_bench.models.chat_batch_pack import BatchLimits
from tcb_bench.responses import Generation

PROMPTS = [f"Question {number}?" for number in range(6)]


class Asker:
    """A model on the server in batch mode; each ``ask`` is a new process as far as it can tell."""

    def __init__(self, server, folder, args="", **api):
        self.server, self.folder, self.args, self.api = server, folder, args, api
        self.limits, self.lines = BatchLimits(), []

    def ask(self, prompts, spent=None, **over):
        """Prompt -> response of the first repeat; those without one are left out."""
        args = f"poll_s=0.01{self.args}"
        self.lm = chat(self.server, args=args, folder=self.folder, api_mode="batch", **self.api)
        self.lm.say, self.lm.batch_limits = self.lines.append, self.limits
        self.lm.begin(spent or {})
        requests = [text_request(prompt, **over) for prompt in prompts]
        for prompt, request in zip(prompts, requests, strict=True):
            request.doc["key"] = f"key of {prompt}"
        found = {}
        self.lm.generate_traced(requests, lambda i, answered: found.update({prompts[i]: answered}))
        return found

    @property
    def said(self):
        return "\n".join(self.lines)


def texts(found):
    return {
        p: a.text if isinstance(a, Generation) else (a.state, a.reason) for p, a in found.items()
    }


def right(prompts):
    return {
        p: answer({"model": "gpt-4o", "messages": messages(p), "temperature": 0}) for p in prompts
    }


def messages(prompt):
    return [{"role": "user", "content": prompt}]


def lines_of(server):
    return Counter(arrival.text for arrival in server.requests if arrival.path == LINE)
