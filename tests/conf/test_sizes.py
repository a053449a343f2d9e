"""What needs more memory than there is gets one line, before anything is allocated."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reloop.conf.build import config_from_mapping
from reloop.conf.checks.machine import _of_groups, has_gpu, total_memory
from reloop.conf.checks.memory import evaluation_bytes, parameters, training_bytes
from reloop.conf.checks.sizes import check_training_size
from reloop.conf.compose import commands
from reloop.conf.groups import choices
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config, ModelConfig, TaskConfig
from reloop.models import Model
from reloop.training import train, train_together
from reloop.training.assemble import build_model, build_task
from tests.conf.conftest import Machine
from tests.conftest import HOME

GB = 10**9


def config(words: str) -> Config:
    return commands(words.split())[0].config


@pytest.fixture
def of_16_gb(machine: Machine) -> None:
    machine(16 * GB)


@pytest.mark.usefixtures("of_16_gb")
@pytest.mark.parametrize("scale", choices("scale"))
@pytest.mark.parametrize("task", choices("task"))
def test_every_task_fits_into_16_gb(task: str, scale: str) -> None:
    for model in ("looped", "standard"):
        config(f"task={task} scale={scale} model={model}")


@pytest.mark.usefixtures("of_16_gb")
@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("task.dims=99999999999", "task.dims"),
        ("model.n_embd=1000000", "model.n_embd"),
        ("model.n_embd=1" + "0" * 400, "model.n_embd"),
        ("model=standard model.n_layer=1000000000", "model.n_layer"),
        ("model.n_layer=1000000000", "model.n_layer"),
        ("model=recurrent model.prelude=1000000000", "model.prelude"),
        ("model.n_positions=100000000000", "model.n_positions"),
        ("task.points=1000000 model.n_positions=1000000", "task.points"),
        ("training.batch_size=1000000000", "training.batch_size"),
        ("training.batch_size=1000000000 training.shards=1000000000", "training.batch_size"),
        ("loops.b=1000000000000", "loops.b"),
        ("loops.b=100000 loops.T=100000", "loops.T"),
        ("loops.sampling=uniform loops.b=10000000", "loops.b"),
        ("evaluation.prompts=10000000000", "evaluation.prompts"),
        ("evaluation.resamples=100000000", "evaluation.resamples"),
        ("evaluation.loops=100000000", "evaluation.loops"),
        ("evaluation.max_loops=1000000", "evaluation.max_loops"),
        ("task=relu_network task.hidden=1000000000", "task.hidden"),
        ("task=decision_tree task.depth=30", "task.depth"),
        ("task=decision_tree task.depth=1000000000000", "task.depth"),
    ],
)
def test_what_no_machine_holds_names_the_key_that_drives_it(words: str, key: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as mistake:
        config(words)
    assert mistake.value.key == key
    assert str(mistake.value).count("\n") == 0
    assert time.process_time() - began < 3


@pytest.mark.usefixtures("of_16_gb")
def test_a_batch_that_fits_in_parts_says_so(tmp_path: Path) -> None:
    big = "task=linear scale=paper training.batch_size=2048 device=cpu folder=" + str(tmp_path)
    with pytest.raises(ConfigError, match=r"needs \d.* GB of .*16 GB; training.shards=4 would"):
        config(big)
    config(f"{big} training.shards=4")


def test_a_gpu_may_hold_more_than_the_machine(machine: Machine) -> None:
    machine(16 * GB, gpu=True)
    big = "task=decision_tree scale=paper model=LT"
    assert config(big).device == "auto"
    with pytest.raises(ConfigError, match=r"loops\.b is 70: a training step needs"):
        config(f"{big} device=cpu")
    with pytest.raises(ConfigError, match="the largest GPU has"):
        config("model.n_embd=1000000")


@pytest.mark.usefixtures("of_16_gb")
def test_from_python_too_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.dims is 99,999,999,999"):
        train(Config(task=TaskConfig("linear", dims=99_999_999_999), folder=str(tmp_path / "x")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("of_16_gb")
def test_runs_together_need_the_memory_of_all(tmp_path: Path) -> None:
    """What each run alone would fit into, all of them may not."""
    one = config(f"task=linear scale=paper device=cpu folder={tmp_path / 'runs'}")
    process = training_bytes(one, 0)
    assert training_bytes(one, 3) - process == 3 * (training_bytes(one) - process)
    check_training_size(one)
    with pytest.raises(ConfigError, match=r"runs trained together is 9: a training step needs \d"):
        train_together([replace(one, seed=seed) for seed in range(9)])
    assert not list(tmp_path.iterdir())


def test_a_run_of_another_machine_is_read_here(machine: Machine) -> None:
    machine(GB)
    assert config_from_mapping({"training": {"batch_size": 10**6}}).training.batch_size == 10**6


@pytest.mark.parametrize("memory", [None, 10**30])
def test_where_memory_is_not_known_or_enough_nothing_is_refused(
    memory: int | None, machine: Machine
) -> None:
    machine(memory)
    check_training_size(Config(model=ModelConfig(n_embd=1_000_000)))


@pytest.mark.parametrize("model", choices("model"))
def test_parameters_are_counted_within_a_tenth(model: str) -> None:
    ours = config(f"task=linear model={model} scale=paper task.points=41")
    assert parameters(ours) == pytest.approx(_counted(build_model(ours, build_task(ours))), rel=0.1)


def _counted(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_more_of_anything_needs_no_less() -> None:
    least = config("task=linear")
    for words in ("training.batch_size=640", "model.n_embd=64", "loops.T=12", "task.points=41"):
        assert training_bytes(config(f"task=linear {words}")) > training_bytes(least)
    for words in (
        "evaluation.prompts=2560",
        "evaluation.max_loops=99",
        "evaluation.resamples=2000",
    ):
        assert evaluation_bytes(config(f"task=linear {words}")) > evaluation_bytes(least)


def test_a_control_group_limits_what_there_is(tmp_path: Path) -> None:
    inner = tmp_path / "user" / "job"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "user" / "memory.max").write_text("5000\n")
    old = tmp_path / "memory" / "old"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("7000\n")
    assert _of_groups(tmp_path, ["/user/job"]) == [5000]
    assert _of_groups(tmp_path, ["/old"]) == [7000]
    assert _of_groups(tmp_path / "absent", ["/"]) == []


def test_this_machine_has_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    total = total_memory()
    assert total is not None
    assert total > 10**8
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not has_gpu()


_MEASURE = """
import resource, sys
from reloop.conf.compose import commands
from reloop.conf.checks.memory import training_bytes
from reloop.training.assemble import build_curriculum, build_model, build_task
from reloop.training.device import place
from reloop.training.step import Trainer

(command,) = commands(sys.argv[1:])
config = command.config
task = build_task(config)
model = place("cpu", "fp32").prepare(build_model(config, task))
trainer = Trainer(config, task, build_curriculum(config, task), model)
for step in range(2):
    trainer.update(config.training.steps - 3 + step)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(training_bytes(config) / (peak if sys.platform == "darwin" else 1024 * peak))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "task=linear",
        "task=sparse_linear scale=paper",
        "task=linear scale=paper model=standard",
        "task=linear scale=paper model.block=llama",
        "task=linear scale=paper model=FLT training.batch_size=16",
        "task=linear scale=paper model=recurrent training.batch_size=16",
        "task=linear scale=paper model=unnormed training.batch_size=16",
        "task=relu_network scale=paper",
        "task=linear scale=paper model.n_embd=1024 loops.T=3 training.batch_size=8",
        "task=decision_tree task.depth=16",
        "task=linear task.dims=2000 training.batch_size=256",
    ],
)
def test_a_step_takes_what_was_estimated_within_a_factor_of_two(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *words.split(), "device=cpu"],
        capture_output=True,
        text=True,
        check=True,
        cwd=HOME,
    )
    assert 0.5 < float(done.stdout) < 2
