"""The Token Constraint Bound paper's experiments, and ours, one module each.

A study is a module with a function ``study(session) -> Findings`` and a YAML of the same name with
every setting that can change its numbers. ``run_study`` runs one, durable like a run.
"""

STUDIES: dict[str, str] = {
    "correlations": "delta_tcb against v_eff and logit margin, by regime (BC table 1)",
    "geometry": "competitors moved towards and away from the top-1 (BC table 2)",
    "interventions": "one problem, eight prompts: accuracy and stability (BC table 5)",
    "prompts": "prompts chosen by stability, by perplexity, at random (BC tables 3 and 4)",
    "dynamics": "stability along generated texts, dips and loops (BC figure 4)",
    "audit": "does delta_tcb foretell which answers change?",
    "layers": "sensitivity of the prediction to every layer's output",
}
"""Name -> what it asks, for the command line."""
