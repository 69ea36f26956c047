"""Condition ids: canonical, in YAML order, temperatures as decimals. Expected values written by hand."""

from tcb_bench.conditions import conditions


def test_eleven_temperatures_times_two_have_the_ids_of_the_paper():
    sweep = {"temperature": [i * 0.2 for i in range(11)], "top_k": [0, 5]}
    ids = [cell.id for cell in conditions(sweep)]
    assert ids[:4] == [
        "temperature=0.0,top_k=0",
        "temperature=0.0,top_k=5",
        "temperature=0.2,top_k=0",
        "temperature=0.2,top_k=5",
    ]
    assert ids[6] == "temperature=0.6,top_k=0"  # 3 * 0.2 is 0.6000000000000001 in floats
    assert ids[-1] == "temperature=2.0,top_k=5"
    assert len(set(ids)) == 22


def test_axes_keep_the_order_of_the_yaml():
    assert conditions({"b": ["x"], "a": [1]})[0].id == "b=x,a=1"


def test_no_sweep_is_one_condition_with_an_empty_id():
    assert [cell.id for cell in conditions(None)] == [""]
