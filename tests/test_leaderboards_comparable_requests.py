"""What boards compare entries by is what a task asks of any model. Oracle: two models by hand."""

from types import SimpleNamespace

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.load_tasks import load_tasks
from tcb_bench.run import _settings


def test_a_models_own_sampling_is_no_part_of_what_the_task_asks():
    found = []
    for own in ({"top_p": 0.8, "temperature": 0.7}, {"temperature": 0.0}):
        options = TaskOptions(data="sample", limit=1)
        config = RunConfig(model="demo", tasks=("hotpotqa_tempperturb",), options=options)
        lm = SimpleNamespace(
            tokenizer=None, info={}, temperature_effective=True, model_sampling=own
        )
        loaded = load_tasks(config.tasks, options, [])
        settings = _settings(config, SimpleNamespace(label="any"), lm, loaded)
        task = next(iter(loaded.tasks.values()))
        assert task.generation()["top_p"] == own.get("top_p", 1.0)  # it is still sent
        found.append(settings["request_sha256"])
    assert found[0] == found[1]
