"""One command of `run.py`: train, evaluate, compare, import, plan or tune, and print the result.
What measures is imported after training: the first steps need not wait for matplotlib."""

from dataclasses import replace
from pathlib import Path

from looplab.conf.actions import Command
from looplab.conf.checks.folders import is_writable
from looplab.conf.checks.processes import is_follower
from looplab.conf.schema import Config
from looplab.conf.words import as_called, run_py
from looplab.training import Run, import_checkpoint, train
from looplab.training.assemble import build_task
from looplab.training.run_folder.data import changed_data, keep_places, task_in
from looplab.training.run_folder.run import check_there


def carry_out(command: Command) -> None:
    """Carry out one command and print its result. Raises what `train`, `evaluate`, `compare` and
    `import_checkpoint` do."""
    config = command.config
    if command.action == "import":
        run = import_checkpoint(command.paths[0], command.given, config.folder)
        print(f"{run.path}: {run.model.describe()}, after {run.step} steps")
        print(as_called(run_py("action=evaluate", f"run={run.path}")), flush=True)
    elif command.action == "compare":
        from looplab.evaluation.comparison import Comparison
        from looplab.evaluation.load import load_run
        from looplab.show.compare import compare
        from looplab.show.report import comparison_table

        runs = [load_run(path) for path in command.paths]
        folder = Path(config.folder)
        result = compare(runs, config.evaluation, folder, config.device, config.figures)
        print(f"\n{comparison_table(Comparison.read(result), config.tables.format)}", flush=True)
        print(f"\n{result['path']}: comparison.json, figures/", flush=True)
    elif command.action == "plan":
        from .plan import plan_of

        print(plan_of(config), flush=True)
    elif command.action == "tune":
        from .tune import tune

        print(tune(config), flush=True)
    elif command.action == "evaluate":
        from looplab.evaluation.load import load_run

        run = load_run(command.paths[0])
        # Its own, but for what an evaluation may ask for: task.eval, and where the data are today.
        run = replace(run, task=task_in(run.path, config))
        print(f"{run.path}, after {run.step} of {config.training.steps} steps", flush=True)
        _evaluate(config, run)
        if is_writable(run.path) and not changed_data(run.path, config, run.task):
            keep_places(run.path, run.task)
    else:
        check_evaluation_of(config)
        run = train(config, command.again)
        if not is_follower():  # of several processes the first evaluates
            _evaluate(config, run)


def check_evaluation_of(config: Config) -> None:
    """Raises ConfigError for what the evaluation after a training will not find. Where nothing but
    the task's own is asked for, nothing is imported."""
    asked = config.evaluation.baselines or config.evaluation.normalise != "none"
    if config.task.settings.get("eval") or asked or config.plugins:
        from looplab.evaluation.text.evaluate import check_evaluation

        check_evaluation(build_task(config), config.evaluation, config.task.points)


def _evaluate(config: Config, run: Run) -> None:
    """Evaluate a run, and print the result."""
    from looplab.evaluation.evaluation import Evaluation
    from looplab.show.evaluate import evaluate
    from looplab.show.report import report

    try:
        result = evaluate(run, config.evaluation, config.device, config.figures)
    finally:
        check_there(run.path)
    print(f"\n{report(Evaluation.read(result), config.tables.format)}\n", flush=True)
    if is_writable(run.path):
        print(f"{run.path}: evaluation.json, figures/", flush=True)
