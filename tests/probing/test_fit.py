"""What probes are trained on and tested on, without a trained run; and the sums of their errors."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.evaluation.bootstrap import bootstrap
from looplab.probing import fit as fit_file
from looplab.probing.fit import Fit
from looplab.probing.probe import summary
from looplab.probing.settings import ProbingSettings
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_model, build_task, step_generator
from looplab.training.run_folder.checkpoint import newest_checkpoint
from tests.conftest import tiny_config

SETTINGS = ProbingSettings(
    run="given", steps=2, batch_size=5, prompts=9, resamples=20, seeds=2, device="cpu"
)
LAYERS, LENGTHS = 3, 7


def fit(folder: Path, settings: ProbingSettings = SETTINGS, distinct: int = 0) -> Fit:
    """Probes of two loops of fresh weights."""
    config = tiny_config(folder)
    task = replace(config.task, name="linear", settings={}, distinct_prompts=distinct)
    config = replace(config, task=task)
    run = Run(folder, config, build_task(config), build_model(config, build_task(config)).eval(), 0)
    return Fit(run, settings, LAYERS, folder / "probes")


def seen(of: Fit, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, Prompts, Tensor]]:
    """What a training learns from, and whether it is the control that does."""
    batches: list[tuple[bool, Prompts, Tensor]] = []

    def learn(self: Fit, kind: str, prompts: Prompts, parameters: Tensor) -> dict[str, Tensor]:
        batches.append((kind == "control", prompts, parameters))
        return {name: torch.zeros(LAYERS) for name in self.learning}

    monkeypatch.setattr(Fit, "_learn", learn)
    of.train()
    return batches


@pytest.mark.parametrize("distinct", [0, 1])
def test_no_prompt_is_met_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distinct: int
) -> None:
    """By either kind of probes at any step, in a test, by a linear probe or by the run itself."""
    settings = replace(SETTINGS, batch_size=9)  # as many as in the tests: one stream, same numbers
    of = fit(tmp_path, settings, distinct)
    other = fit(tmp_path, replace(settings, seed=1))
    own = of.task.draw(step_generator(0, 0, 0, torch.device("cpu")), 9, of.points)[0]
    prompts = [own, *(batch for _, batch, _ in seen(of, monkeypatch))]
    prompts += [of.draw("test")[0], other.draw("test")[0]]
    prompts += [of.draw("linear", batch)[0] for batch in range(3)]
    inputs = torch.cat([some.xs[:, 0, 0] for some in prompts])
    assert len(inputs.unique()) == len(inputs) == 10 * 9


def test_which_tokens_and_lengths_the_protocols_have(tmp_path: Path) -> None:
    """The code's probes see the whole prompt, and least squares is asked for up to d = 3 pairs."""
    settings = replace(SETTINGS, targets=("gradient", "least_squares", "residual"))
    paper = fit(tmp_path, settings)
    for name in paper.targets:
        query = name == "residual"
        assert paper.lengths(name) == range(1, 8 - query)
        for row, i in zip(paper.tokens_seen(name).tolist(), paper.lengths(name), strict=True):
            seen = 2 * i + query  # the query is token 2i, its output 2i + 1
            assert row == [True] * seen + [False] * (14 - seen)
    code = fit(tmp_path, replace(settings, protocol="reference"))
    for name, last in (("gradient", 7), ("least_squares", 3), ("residual", 6)):
        assert code.lengths(name) == range(1, last + 1)
        assert code.tokens_seen(name).all()
        assert code.tokens_seen(name).shape == (last, 14)


@pytest.mark.parametrize(("working", "passes"), [(300, 3)])
def test_what_is_learned_and_measured_in_parts_is_what_is_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, working: int, passes: int
) -> None:
    """A MiB is for 3 prompts, or for less than one."""
    # As they are: few prompts, whitened, make much of rounding.
    settings = replace(SETTINGS, targets=("gradient", "residual"), protocol="reference")
    monkeypatch.setattr(fit_file, "_WORKING", working)
    at_once, parts = (
        fit(tmp_path / name, replace(settings, memory=memory))
        for name, memory in (("a", 2**50), ("b", 1))
    )
    for each, times in ((at_once, 1), (parts, passes)):
        assert len(list(each.states(each.draw("test")[0]))) == times * LAYERS
    found = parts.errors()
    for name, values in at_once.errors().items():
        np.testing.assert_allclose(found[name], values, rtol=2e-3, atol=1e-5, err_msg=name)
    at_once.train()
    parts.train()
    for name, sums in at_once.learning.items():
        torch.testing.assert_close(parts.learning[name], sums, rtol=1e-3, atol=1e-5)
    saved, _ = newest_checkpoint(parts.folder)
    assert saved is not None
    assert saved.step == 2


def test_a_summary_by_hand() -> None:
    """Errors [layers, seeds, lengths, P]; the last length's target does not vary."""
    draws = np.random.default_rng(0)
    sizes = draws.uniform(1, 2, size=(3, 1, 1, 1)), draws.uniform(1, 2, size=(1, 2, 4, 1))
    errors = (draws.uniform(size=(3, 2, 4, 30)) * sizes[0] * sizes[1]).astype(np.float32)
    control = (3 + draws.uniform(size=(3, 2, 4, 30))).astype(np.float32)
    control[[0, 2]] += 1
    linear = draws.uniform(size=(3, 4, 30)).astype(np.float32)
    variance = np.array([1.0, 2.0, 3.0, 1e-12])
    stand_in: Any = SimpleNamespace(
        targets={"x": SimpleNamespace(label="X")},
        lengths=lambda name: range(1, 5),
        settings=SimpleNamespace(resamples=50, seed=7, steps=5),
        probes={"probes": {}, "control": {}},
        learning={"x": torch.tensor([[3.0, 6.0, 9.0], [3.0, 6.0, 9.0]])},
    )
    arrays = {"x/probes": errors, "x/control": control, "x/linear": linear, "x/variance": variance}
    found: Any = summary(stand_in, "x", arrays)

    def interval(rows: Any) -> Any:
        return bootstrap(rows.T, 50, 7).to_json()

    mean, of_control = (a.mean((1, 2), dtype=np.float64) for a in (errors, control))
    for key, rows in (
        ("error", mean),
        ("linear", linear.mean(1, dtype=np.float64)),
        ("control", of_control),
        ("minus_control", mean - of_control[1]),
    ):
        for part, values in interval(rows).items():
            np.testing.assert_allclose(found[key][part], values, err_msg=key)
    least = found["control_least"]
    assert least == {"layer": 1, **{part: found["control"][part][1] for part in found["control"]}}
    by_length = errors.mean(1, dtype=np.float64)
    for layer in range(3):
        for part, values in interval(by_length[layer]).items():
            np.testing.assert_allclose(found["by_length"][part][layer], values)
    ratios = np.array([row[:3] for row in found["unexplained"]])
    np.testing.assert_allclose(ratios, (by_length.mean(2) / variance)[:, :3], rtol=1e-5)
    assert [row[3] for row in found["unexplained"]] == [None] * 3
    each = errors.mean((2, 3), dtype=np.float64)
    np.testing.assert_allclose(found["seed_spread"], abs(each[:, 0] - each[:, 1]) / 2**0.5)
    assert found["learning"] == {"until_step": [3, 5], "error": [[1, 2, 3], [1.5, 3, 4.5]]}


@pytest.mark.parametrize("protocol", ["paper", "reference"])
def test_errors_are_means_over_outputs_and_the_divisor(tmp_path: Path, protocol: Any) -> None:
    of = fit(tmp_path, replace(SETTINGS, protocol=protocol))
    for kind, value in (("probes", 0.0), ("control", 2.0)):
        with torch.no_grad():
            of.probes[kind]["gradient"].weight_out.zero_()
            of.probes[kind]["gradient"].bias_out.fill_(value)
    arrays = of.errors()
    wanted = of.values("gradient", *of.draw("test")).double().numpy()  # [P, lengths, d]
    units = of.sizes["gradient"][:, 0].numpy()
    divisor = 3 if protocol == "reference" else 1
    for kind, value in (("probes", 0.0), ("control", 2.0)):
        expected = ((wanted - value * units) ** 2).mean(-1).T / divisor
        np.testing.assert_allclose(arrays[f"gradient/{kind}"][1, 1], expected, rtol=1e-4)
    variance = wanted.var(0, ddof=1).mean(-1) / divisor
    np.testing.assert_allclose(arrays["gradient/variance"], variance, rtol=1e-5)
