"""Plans as JSON, for a fault server in a process of its own."""

import fault_bodies
import fault_refusals
import fault_status
from fault_plan import Rule, as_plan, one_of


def plan_from_json(rules):
    """A plan of JSON types: ``[{"fault": "server_error", "with": {"status": 503}, "first": 2}]``.

    ``fault`` is a function of the three modules of faults (or a list of names, one of which is
    drawn for each attempt), ``with`` its arguments, the rest the conditions of a ``Rule``.
    """
    return as_plan([_rule(**rule) for rule in rules])


def _rule(*, fault, **conditions):
    arguments = conditions.pop("with", {})
    if isinstance(fault, list):
        return Rule(one_of(*(_named(name)() for name in fault)), **conditions)
    return Rule(_named(fault)(**arguments), **conditions)


def _named(name):
    modules = (fault_status, fault_refusals, fault_bodies)
    return next(vars(module)[name] for module in modules if name in vars(module))
