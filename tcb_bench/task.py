"""The Task class that task YAMLs name: lm-eval's ConfigurableTask with stability requests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from jinja2 import TemplateError
from lm_eval.api.filter import FilterEnsemble
from lm_eval.api.instance import Instance
from lm_eval.api.samplers import FirstNSampler
from lm_eval.api.task import ConfigurableTask
from lm_eval.api.utils import ends_with_whitespace

from tcb_bench.conditions import Condition
from tcb_bench.config import NEUTRAL_SAMPLING, TaskOptions, check_gen_kwargs
from tcb_bench.data import ID_COLUMN, load_documents
from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import DataError, UnknownName, UsageError, reason
from tcb_bench.rag import with_evidence
from tcb_bench.scoring import gold_number, mean_of_known, score
from tcb_bench.task_documents import Documents
from tcb_bench.task_files import TcbSpec, read_strict, tcb_spec
from tcb_bench.task_perturb import Perturber
from tcb_bench.task_scoring import check_scoring, gold_choice
from tcb_bench.task_shots import shot_pool
from tcb_bench.task_sweep import PERTURBED, SAMPLED, sweep_axes
from tcb_bench.task_yaml import OWN_KEYS

OWN_POOL = "(chosen here)"  # keeps lm-eval from drawing one shot too many for its own check
RUN_KEY = "tcb_run"
"""Key of lm-eval's task metadata under which a run hands its ``TaskOptions`` to its tasks."""

TEXTS = ("doc_to_text", "description")
"""What ``changed`` may say in other words."""
Doc = Mapping[str, Any]
ShotsOf = Callable[[Doc], list[dict[str, Any]]]

ACC = [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]


class TcbTask(ConfigurableTask):  # type: ignore[misc]
    """A task whose requests carry stability: ``class: !function tcb_bench.task.TcbTask`` in a YAML.

    It differs from its parent in the data (pinned, local or sample; every row with a document id),
    in which documents it takes (a seeded draw, not the first n), in shots seeded per document (a
    resumed run sees the same prompts), and in its request types ``next_token`` and
    ``generate_traced``. ``process_results`` returns lm-eval's ``acc`` and the full sample rows.
    """

    is_tcb_task = True
    sampler: Any  # lm-eval's; replaced for each prompt that shows examples

    def __init__(self, config: dict[str, Any]) -> None:
        """Builds the task from a parsed YAML; ``metadata: {tcb_run: TaskOptions}`` tells the run.

        Raises:
            UsageError: the ``tcb`` mapping or the options do not fit.
            DataError: the documents cannot be loaded.
        """
        config = {key: value for key, value in config.items() if key != "class"}
        metadata = dict(config.get("metadata") or {})
        self.options: TaskOptions = metadata.pop(RUN_KEY, None) or TaskOptions()
        source = Path(metadata.pop("config_source", "inline"))
        self.folder = source.parent
        self.base_name: str = config["task"]
        self.own = {key: config.pop(key) for key in OWN_KEYS if key in config}
        if source.is_file():  # lm-eval merges shallowly: a `tcb: {epsilon: 2}` would lose the rest
            self.own["tcb"] = read_strict(source).config["tcb"]
        self.spec: TcbSpec = tcb_spec({**config, **self.own}, self.base_name)
        if self.spec.answer == "choice" and self.spec.request != "next_token":
            raise UsageError(f"{self.base_name}: answer: choice needs request: next_token")
        self.axes = sweep_axes(self.own, self.spec, self.base_name)
        useless = [axis for axis in self.axes if axis in SAMPLED]
        if self.spec.request == "next_token" and useless:
            raise UsageError(
                f"{self.base_name}: sweep.{useless[0]} changes nothing where no text is sampled; "
                "use request: generate_traced, or leave it out"
            )
        self.model_sampling: dict[str, Any] = {}  # of the run, for sampling_defaults: model
        self.documents = Documents(self.spec, self.options, self.base_name)
        self._own_docs: Dataset | Sequence[Doc] | None = None  # a condition's, or a study's
        self._shots_of: ShotsOf | None = None  # a study's, in place of the pool's
        check_scoring(config, self.base_name)
        config |= {"metadata": metadata, "output_type": "generate_until", "metric_list": ACC}
        config.setdefault("generation_kwargs", {"until": []})
        if self.options.num_fewshot is not None:
            config["num_fewshot"] = self.options.num_fewshot
        super().__init__(config=config)
        self._filters = [FilterEnsemble("none", [])]  # all repeats, not only the first
        self._pool = shot_pool(self, self.axes)
        self.fewshot_cfg.split = OWN_POOL
        self.generation()  # a bad parameter is found before the model is loaded

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Loads the documents once; conditions of a sweep share them through ``share_data``."""
        config = {
            **self.config.to_dict(keep_callable=True),
            **self.own,
            "dataset_kwargs": dataset_kwargs,
        }
        self.dataset: DatasetDict = load_documents(
            config, self.spec, self.options.data, self.folder
        )

    @property
    def eval_docs(self) -> Dataset | Sequence[Doc]:
        """The documents of this run: the YAML's draw, then ``--limit``, in the data set's order."""
        if self._own_docs is None:
            split = self.config.test_split or self.config.validation_split
            if split not in self.dataset:
                raise DataError(
                    f"{self.base_name}: the data has no split {split!r}, "
                    f"only {sorted(self.dataset)}"
                )
            self._own_docs = self.documents.choose(super().eval_docs).documents
        return self._own_docs

    def in_condition(self, condition: Condition) -> TcbTask:
        """This task in one cell of its sweep; data, draws and changed texts are shared."""
        self.eval_docs  # noqa: B018 - chosen once, before the copies
        clone = copy.copy(self)
        clone.options = replace(self.options, condition=dict(condition.axes))
        clone._config = copy.copy(self.config)
        clone._config.task = f"{self.base_name}|{condition.id}" if condition.id else self.base_name
        clone.condition = condition
        clone._own_docs = self.documents.only(condition.axes)
        return clone

    def changed(
        self,
        *,
        texts: Mapping[str, str] | None = None,
        documents: Sequence[Doc] | None = None,
        perturber: Perturber | None = None,
    ) -> TcbTask:
        """A copy of this task that asks in another way; all that is loaded is shared.

        Args:
            texts: ``doc_to_text`` (of questions and examples) and ``description`` by name, as a
                YAML would have them.
            documents: what is asked in place of this task's documents, each with its id.
            perturber: what changes the documents and examples of a prompt in place of this task's.

        Raises:
            UnknownName: another text.
        """
        self.eval_docs  # noqa: B018 - chosen once, before the copies
        clone = copy.copy(self)
        clone._config, clone.fewshot_cfg = copy.copy(self.config), copy.copy(self.fewshot_cfg)
        clone.documents = self.documents.with_own_prompts(perturber)
        for name, text in (texts or {}).items():
            if name not in TEXTS:
                raise UnknownName("text of a task", name, TEXTS)
            setattr(clone._config, name, text)
            if name == "doc_to_text":
                clone.fewshot_cfg.doc_to_text = text
        if documents is not None:
            clone._own_docs = documents
        return clone

    def showing(self, n: int, shots: ShotsOf) -> TcbTask:
        """A copy of this task whose prompts show ``n`` examples: those that ``shots`` gives."""
        clone = self.changed()
        clone._config.num_fewshot, clone._shots_of = n, shots
        return clone

    def fewshot_docs(self) -> Any:
        """The fixed shots beside the YAML where it names some, else lm-eval's few-shot split."""
        if self.spec.shots:
            return read_jsonl(self.folder / self.spec.shots)
        split = self.config.fewshot_split or self.config.training_split
        if split and split not in self.dataset:
            return []
        return super().fewshot_docs()

    def fewshot_context(self, doc: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The prompt, as this condition changes it; shots are seeded by (seed, task, document).

        Conditions that show the same share one text: eleven temperatures render it once.
        """
        how = [bool(value) if callable(value) else value for _, value in sorted(kwargs.items())]
        changes = [self.options.condition.get(axis) for axis in PERTURBED]
        key = repr((doc[ID_COLUMN], changes, args, how))
        if key not in self.documents.prompts:
            self.documents.prompts[key] = self._rendered(doc, *args, **kwargs)
        return self.documents.prompts[key]

    def _rendered(self, doc: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        changed, _ = self.documents.perturber.document(doc, self.options.condition)
        if self.config.num_fewshot:
            self.sampler = FirstNSampler(self.shots(doc))
        try:
            return super().fewshot_context({**doc, **changed}, *args, **kwargs)
        except (TemplateError, KeyError) as error:
            raise DataError(
                f"{self.base_name}: document {doc[ID_COLUMN]}: its prompt cannot be rendered: "
                f"{reason(error)}"
            ) from error

    def doc_to_text(self, doc: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The question of a document; for a RAG task with the documents it shows."""
        if self.spec.has_documents and "evidence" not in doc:
            changed, _ = self.documents.perturber.document(doc, self.options.condition)
            doc = {**doc, **changed}
        return super().doc_to_text(doc, *args, **kwargs)

    def shots(self, doc: dict[str, Any]) -> list[dict[str, Any]]:
        """The examples before a document, as this condition changes them."""
        if self._shots_of is not None:
            return self._shots_of(doc)
        chosen, pool = self._pool.of(doc)
        shots = self.documents.perturber.shots(doc, self.options.condition, chosen, pool)
        return [with_evidence(shot, self.spec.columns) for shot in shots]

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> Instance:
        """One request: the prompt with its choices, or with every sampling parameter."""
        self.target(doc)  # a gold that cannot be scored is found before anything is asked
        has_chat = kwargs.pop("apply_chat_template", False)
        kwargs.pop("chat_template", None)
        if self.spec.request == "next_token":
            arguments: tuple[Any, ...] = (ctx, self._choices(doc, has_chat))
        else:
            arguments = (ctx, self.generation())
        kind = "next_token" if self.spec.request == "next_token" else "generate_traced"
        return Instance(request_type=kind, doc=doc, arguments=arguments, idx=0, **kwargs)

    def _choices(self, doc: dict[str, Any], has_chat: bool) -> tuple[str, ...]:
        """Continuations to score, delimiter + letter, with lm-eval's own rule for the delimiter."""
        if self.config.doc_to_choice is None:
            return ()
        prefix = self.config.gen_prefix
        is_opened = prefix and not ends_with_whitespace(prefix)
        delimiter = self.config.target_delimiter if not has_chat or is_opened else ""
        return tuple(f"{delimiter}{choice}" for choice in self.doc_to_choice(doc))

    def generation(self) -> dict[str, Any]:
        """Every sampling parameter of this task's requests, nothing left to an engine's default.

        Order: neutral or the model's own, then the YAML, ``--gen_kwargs``, and the sweep's cell.
        """
        given = {k: v for k, v in (self.config.generation_kwargs or {}).items() if k != "do_sample"}
        check_gen_kwargs(given, f"{self.base_name}: generation_kwargs")
        axes = {k: v for k, v in self.options.condition.items() if k in SAMPLED}
        until = given.pop("until", [])
        merged = {"max_gen_toks": 256, **NEUTRAL_SAMPLING, **self.model_sampling, **given}
        merged |= {"until": [until] if isinstance(until, str) else list(until)}
        merged |= self.options.gen_kwargs | axes
        where = "all" if self.options.trace else self.spec.position or "none"
        return merged | {"stability_at": "none" if self.spec.request == "generate" else where}

    def process_results(self, doc: dict[str, Any], results: list[list[Any]]) -> dict[str, Any]:
        """``acc`` (mean over repeats; None where there is no answer of the model) and the rows."""
        target, reference = self.target(doc), self.documents.references.texts.get(doc[ID_COLUMN])
        rows = [score(response, target, self.spec, reference) for response in results[0]]
        return {"acc": mean_of_known(row["acc"] for row in rows), "tcb_rows": rows}

    def target(self, doc: dict[str, Any]) -> Any:
        """The gold answer; for choices its index, also where the data gives the letter's text.

        Raises:
            DataError: it is none of the choices, or has no number where one is compared.
        """
        gold = self.doc_to_target(doc)
        if self.spec.answer == "choice":
            if self.config.doc_to_choice is None:
                return None
            where = f"{self.base_name}: {doc[ID_COLUMN]}"
            return gold_choice(gold, self.doc_to_choice(doc), where)
        if not isinstance(gold, str | int | float):
            raise DataError(
                f"{self.base_name}: {doc[ID_COLUMN]}: the gold answer {gold!r} is no text or number"
            )
        if self.spec.answer == "short_answer" and not str(gold).strip():
            raise DataError(f"{self.base_name}: {doc[ID_COLUMN]}: the gold answer is blank")
        if self.spec.answer == "final_number":
            gold_number(str(gold))
        return gold

    def aggregation(self) -> dict[str, Callable[[list[Any]], Any]]:
        """lm-eval's aggregates; rows only pass through (results.py aggregates, with intervals)."""
        return {"acc": mean_of_known, "tcb_rows": len}

    def higher_is_better(self) -> dict[str, bool]:
        """Direction of lm-eval's own metrics."""
        return {"acc": True}
