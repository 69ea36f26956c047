"""hf `evaluate` metrics from YAML, by a local path. Oracle: the metric's own module on the same texts."""

import json

import pytest
from run_tools import QUESTIONS

pytestmark = pytest.mark.slow

METRIC = '''\
"""Share of the reference's letters that the prediction begins with."""
import datasets
import evaluate


class Begins(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        same = [sum(a == b for a, b in zip(p.strip(), r)) / len(r) for p, r in zip(predictions, references)]
        return {"begins": sum(same) / len(same)}
'''
TASK = """\
task: begins_task
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 6, do_sample: false}
metric_list: [{metric: METRIC, hf_evaluate: true, aggregation: mean, higher_is_better: true}]
metadata: {version: 1.0}
"""


def test_a_local_evaluate_metric_scores_a_plain_lm_eval_task(do, tmp_path):
    (tmp_path / "begins").mkdir()
    (tmp_path / "begins" / "begins.py").write_text(METRIC)
    data = tmp_path / "phrases.jsonl"
    data.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS))
    yaml = TASK.replace("DATA", str(data)).replace("METRIC", str(tmp_path / "begins"))
    (tmp_path / "begins_task.yaml").write_text(yaml)
    outcome = do("evaluate", "begins_task", include=(tmp_path,), options={"limit": None})
    found = outcome.result["results"]["begins_task"]["begins,none"]
    [path] = outcome.sample_paths
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == len(QUESTIONS)
    assert found == pytest.approx(sum(row["begins"] for row in rows) / len(rows))
    assert 0 < found <= 1
