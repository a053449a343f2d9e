"""The public names, which `from looplab import …` has, and the modules that they are in."""

MODULES = {
    "Callback": ".training",
    "Config": ".conf.schema",
    "ConfigError": ".conf.mistakes",
    "Curve": ".show.panel",
    "EarlyStopping": ".training",
    "Estimate": ".evaluation.statistics",
    "Evidence": ".experiments.evidence",
    "Loop": ".models.loops.loop",
    "LoopedClassifier": ".openml_eval.estimators",
    "LoopedRegressor": ".openml_eval.estimators",
    "Model": ".models",
    "Panel": ".show.panel",
    "Prompts": ".tasks",
    "Run": ".training",
    "RunError": ".conf.mistakes",
    "SharedLoop": ".models.loops.loop",
    "Target": ".probing.targets",
    "Task": ".tasks",
    "compare": ".show.compare",
    "evaluate": ".show.evaluate",
    "evaluation_prompts": ".training.validation",
    "from_pretrained": ".evaluation.load",
    "load_run": ".evaluation.load",
    "mean_of_seeds": ".show.panel",
    "over_seeds": ".evaluation.statistics",
    "play": ".show.play.write",
    "plot": ".show.plotting",
    "register_baseline": ".evaluation.baselines",
    "register_loop": ".models.loops.make",
    "register_shift": ".tasks",
    "register_target": ".probing.targets",
    "register_task": ".tasks",
    "runs_table": ".evaluation.runs_table",
    "snapshots_of": ".training.run_folder.checkpoint",
    "train": ".training",
    "train_grid": ".experiments.grid",
}

# Names of earlier versions, and what is written in their place.
GONE = {
    "claim": (
        'is gone: write EXPERIMENT = {"claims": {"moves_less": {"sentence": "…", "quantity": "…", '
        '"below": 1.0, "estimate": "moves_less"}}} and the function moves_less(evidence); see '
        "docs/guide/own.md"
    ),
}
