"""What holds for samples of every task: shapes, numbers that come from the generator alone, the
functions behind them, and dimensions that are not visible; tasks by name."""

from dataclasses import fields

import pytest
import torch
import yaml

from looplab.tasks import Prompts, Task, make_task, task_class
from looplab.tasks.task import _REGISTRY
from tests.tasks.conftest import FOLDER, NAMES, assert_same, generator


def visible(task: Task, dims: int) -> slice:
    """The first `dims`; the last, where a task's inputs are padded on the left."""
    return slice(task.dims - dims, None) if task.left_padded else slice(dims)


def hidden(task: Task, dims: int) -> slice:
    """All others."""
    return slice(task.dims - dims) if task.left_padded else slice(dims, None)


def test_prompts_keep_pairs_together() -> None:
    prompts = Prompts(torch.randn(4, 3, 2, generator=generator()), torch.arange(12.0).view(4, 3))
    part, moved = prompts[1:3], prompts.to("meta")
    assert (len(prompts), len(part)) == (4, 2)
    assert_same(part, Prompts(prompts.xs[1:3], prompts.ys[1:3]))
    assert moved.xs.is_meta
    assert moved.ys.is_meta
    for shape in ((4,), (3, 4), (1, 3), (4, 3, 1)):
        with pytest.raises(ValueError, match="prompts need xs"):
            Prompts(prompts.xs, torch.zeros(shape))


@pytest.mark.parametrize("distinct_prompts", [0, 10**6])
def test_prompts_are_a_function_of_the_generator_alone(name: str, distinct_prompts: int) -> None:
    """Which goes on; the global one is neither read nor moved."""
    task, source = make_task(name, 5, distinct_prompts), generator(3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, further = (task.sample(source, batch=4, points=6) for _ in range(2))
        torch.manual_seed(2)
        state = torch.get_rng_state()
        again, other = (task.sample(generator(seed), batch=4, points=6) for seed in (3, 4))
        assert torch.equal(torch.get_rng_state(), state)
    assert_same(first, again)
    for another in (further, other):
        assert not torch.any((first.xs == another.xs).all(2))
        assert not torch.equal(first.ys, another.ys)


def test_prompts_of_a_batch_differ(name: str) -> None:
    """Of any size: none is no special case."""
    task = make_task(name, 5)
    prompts = task.sample(generator(), batch=100, points=6)
    assert (prompts.xs.shape, prompts.ys.shape) == ((100, 6, 5), (100, 6))
    assert prompts.xs.dtype == prompts.ys.dtype == torch.float32
    assert len(prompts.xs.flatten(1).unique(dim=0)) == 100
    different = len(prompts.ys.unique(dim=0))
    assert different > 2**6 / 2 if task.classes else different == 100
    assert task.sample(generator(), batch=0, points=6).xs.shape == (0, 6, 5)


# Σ|x| and Σ|y| of one seed's prompts, endless and of a finite set, kept from version 0.1.0: a run
# of it goes on with the prompts that it began with.
KEPT = {
    ("decision_tree", 0): (57.1589, 18.3189),
    ("decision_tree", 100): (61.0733, 18.5429),
    ("linear", 0): (60.9399, 26.8636),
    ("linear", 100): (56.9857, 25.6743),
    ("noisy_linear", 0): (60.9399, 34.3596),
    ("noisy_linear", 100): (56.9857, 33.3801),
    ("relu_network", 0): (66.0135, 32.1799),
    ("relu_network", 100): (61.0733, 38.9535),
    ("sparse_linear", 0): (56.6302, 30.6376),
    ("sparse_linear", 100): (61.0733, 33.1052),
}


def test_a_seed_means_the_same_prompts_as_ever() -> None:
    for (name, distinct_prompts), expected in KEPT.items():
        prompts, _ = make_task(name, 5, distinct_prompts).draw(generator(7), 6, 4, dims=3)
        sums = [part.double().abs().sum().item() for part in (prompts.xs, prompts.ys)]
        assert sums == pytest.approx(expected, rel=1e-5), (name, distinct_prompts)


DIMS, VISIBLE = 8, 3


@pytest.mark.parametrize("distinct_prompts", [0, 10])
def test_hidden_inputs_are_zero_and_y_is_of_the_visible_ones(
    name: str, distinct_prompts: int
) -> None:
    """Every one is visible by default."""
    task = make_task(name, DIMS, distinct_prompts)
    prompts, parameters = task.draw(generator(), 50, 7, VISIBLE)
    assert prompts.xs.shape == (50, 7, DIMS)
    assert torch.all(prompts.xs[:, :, hidden(task, VISIBLE)] == 0)
    assert torch.all(prompts.xs[:, :, visible(task, VISIBLE)] != 0)
    # What a model sees determines y: x is cut before y is made of it.
    outputs = task.outputs(prompts.xs, parameters)
    assert torch.equal(prompts.ys, outputs) == (name not in ("noisy_linear", "curves"))
    by_default = task.sample(generator(), batch=6, points=5)
    assert torch.all(by_default.xs != 0)
    assert_same(by_default, task.sample(generator(), batch=6, points=5, dims=DIMS))


def test_a_task_is_registered_under_the_name_of_its_file() -> None:
    own = {name for name, cls in _REGISTRY.items() if cls.__module__.startswith("looplab.tasks.")}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == own


@pytest.mark.parametrize("task", NAMES)
def test_the_file_names_every_setting_and_its_default(task: str) -> None:
    written = yaml.safe_load((FOLDER / f"{task}.yaml").read_text())
    own = {f.name: f.default for f in fields(task_class(task))}
    del own["dims"], own["distinct_prompts"], own["distinct_functions"]
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
    assert written == {"name": task} | plain


def test_an_unknown_task_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown task 'sparse_liner'.*'sparse_linear'"):
        make_task("sparse_liner", dims=5)
