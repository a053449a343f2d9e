"""What words compose to: 89 commands of run.py with the name of their run and every setting that
differs from its default, and the names of all runs of all experiments, as they were frozen.

python -m tests.golden.commands           # what differs from the frozen table; 1 if anything does
python -m tests.golden.commands freeze    # writes it anew: only with a line in the log
"""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.checksum import key_of
from looplab.conf.compose import commands
from looplab.conf.files import choices
from looplab.conf.schema import Config
from looplab.experiments.definition import load, members_of, names
from looplab.training.run_folder.run import run_folder

STORED = Path(__file__).with_name("commands.json")
# Each kind of value: numbers with and without a point, lists, names, texts, none, several files.
_OTHERS = """
task=linear training.learning_rate=1e-3 training.weight_decay=.1 training.epsilon=1e-8
task=linear training.steps=1e4 training.batch_size=1_6 training.clip=5
task=linear 'curriculum.dims.intervals=[100, 200,300]' curriculum.dims.start=2 task.dims=10
task=linear curriculum.loops.start=null loops.T=1
task=linear curriculum.proportional=true training.steps=20000 scale=paper
task=linear scale=medium curriculum.proportional=true training.steps=3000
task=linear 'figures.format=[png,pdf]' figures.width=column figures.title=false tables.format=latex
task=linear evaluation.shifts=all evaluation.loops=auto evaluation.halt_on=prediction
task=linear 'evaluation.shifts=[noise,scaled_x_2]' 'evaluation.baselines=[ridge]'
task=linear evaluation.baselines=null evaluation.max_loops=60 evaluation.tolerance=1e-2
task=linear folder='my runs/a=b' name=first wandb=offline tensorboard=true
task=linear loops.sampling=uniform loops.least=2 loops.grad_loops=all
task=linear loops.sampling=poisson_lognormal loops.b=4 loops.T=1
task=linear loops.grad_loops=6 loops.b=6 loops.T=3 loops.stop_at=0
task=linear model.residual_scaling=factored model.residual_factor=.5 model.n_layer=2
task=linear model.attention=grouped model.n_kv=2 model.block=llama
task=linear model.attention=sliding model.pattern=SL model.n_layer=3 model.n_positions=41
task=linear model.prelude=1 model.coda=1 model.injection=concat
task=linear training.optimizer=adam training.ema_decay=0 training.warmup=10 training.decay=.5
task=linear training.snapshots=[0,10,100] training.log_norms=true
task=linear device=cuda:1 precision=bf16 backend=triton seed=17
task=linear recipe=paper scale=small
task=sparse_linear recipe=fast scale=paper
task=sparse_linear task.sparsity=1 task.dims=6 task.points=9
task=sparse_linear training.targets=posterior_mean training.jacobian_penalty=.01
task=noisy_linear task.noise_std=.25 task.distinct_functions=64
task=decision_tree task.depth=3
task=relu_network task.hidden=10 task.distinct_prompts=1000
task=conditioned_linear task.condition=100
task=language task.text=a/../b.txt model=recurrent model.injection=none model.lanes=2
task=language task.tokens=cl100k_base model=FLT training.optimizer=adamw
"""


def frozen_of_today() -> dict[str, Any]:
    """The table by today's code: run and settings by command, runs by experiment and scale."""
    return {
        "commands": {shlex.join(words): _composed(words) for words in _commands()},
        "experiments": {
            f"{name} {scale}": _names_of(name, scale)
            for name in names()
            for scale in load(name).scales
        },
    }


def _commands() -> Iterator[list[str]]:
    for task in choices("task"):
        for scale in choices("scale"):
            yield [f"task={task}", f"scale={scale}"]
    for model in choices("model"):
        if model != "looped":
            yield ["task=linear", f"model={model}"]
        if model not in ("looped", "linear_attention"):
            yield ["task=language", f"model={model}", "scale=paper"]
    yield from (shlex.split(line) for line in _OTHERS.strip().splitlines())


def _composed(words: list[str]) -> dict[str, Any]:
    config = commands(words)[0].config
    default = flatten(config_to_mapping(Config()))
    values = flatten(config_to_mapping(config))
    changed = {key: value for key, value in values.items() if default.get(key) != value}
    return {"run": run_folder(config).path.name, "settings": changed}


def _names_of(name: str, scale: str) -> str:
    """How many runs an experiment has, and the checksum of their names in order."""
    runs = [run_folder(each.config).path.name for each in members_of(load(name), scale)]
    return f"{len(runs)} runs {key_of(runs)}"


def main(words: list[str]) -> int:
    """Carry out the command; the exit code."""
    today = frozen_of_today()
    if words == ["freeze"]:
        text = json.dumps(today, indent=1, ensure_ascii=False, sort_keys=True)
        STORED.write_text(text + "\n", encoding="utf-8")
        return 0
    frozen = json.loads(STORED.read_text(encoding="utf-8"))
    others = [
        f"{key}: {today[part].get(key)}\n    frozen: {value}"
        for part, values in frozen.items()
        for key, value in values.items()
        if today[part].get(key) != value
    ]
    print("\n".join(others) or "every command composes to the frozen settings and names")
    return bool(others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
