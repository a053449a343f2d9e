"""What probes are trained on and tested on, without a trained run: prompts, also those of the
control, whose functions all have the weights w = 1, and whitened states; the sums of their errors.
"""

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
from looplab.probing.fit import Fit, control_prompts, whitening
from looplab.probing.probe import summary
from looplab.probing.settings import ProbingSettings
from looplab.tasks import Prompts, make_task
from looplab.training import Run
from looplab.training.assemble import build_model, build_task, step_generator
from looplab.training.run_folder.checkpoint import newest_checkpoint
from tests.conftest import tiny_config
from tests.tasks.conftest import assert_mean, assert_variance_per_prompt, generator

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


def test_what_is_learned_and_measured_in_parts_is_what_is_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MiB is for 3 prompts."""
    # As they are: few prompts, whitened, make much of rounding.
    settings = replace(SETTINGS, targets=("gradient", "residual"), protocol="reference")
    monkeypatch.setattr(fit_file, "_WORKING", 300)
    at_once, parts = (
        fit(tmp_path / name, replace(settings, memory=memory))
        for name, memory in (("a", 2**50), ("b", 1))
    )
    for each, times in ((at_once, 1), (parts, 3)):
        assert len(list(each.states(each.draw("test")[0]))) == times * LAYERS
    found = parts.errors()
    for name, values in at_once.errors().items():
        np.testing.assert_allclose(found[name], values, rtol=2e-3, atol=1e-5, err_msg=name)
    at_once.train()
    parts.train()
    for name, sums in at_once.learning.items():
        torch.testing.assert_close(parts.learning[name], sums, rtol=1e-3, atol=1e-5)
    saved, _ = newest_checkpoint(parts.folder)
    assert saved
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
    answers = {"probes": 0.0, "control": 2.0}
    for kind, value in answers.items():
        with torch.no_grad():
            of.probes[kind]["gradient"].weight_out.zero_()
            of.probes[kind]["gradient"].bias_out.fill_(value)
    arrays = of.errors()
    wanted = of.values("gradient", *of.draw("test")).double().numpy()  # [P, lengths, d]
    units = of.sizes["gradient"][:, 0].numpy()
    divisor = 3 if protocol == "reference" else 1
    for kind, value in answers.items():
        expected = ((wanted - value * units) ** 2).mean(-1).T / divisor
        np.testing.assert_allclose(arrays[f"gradient/{kind}"][1, 1], expected, rtol=1e-4)
    variance = wanted.var(0, ddof=1).mean(-1) / divisor
    np.testing.assert_allclose(arrays["gradient/variance"], variance, rtol=1e-5)


def test_the_controls_inputs_are_those_of_the_task_and_its_outputs_their_sums() -> None:
    """The outputs of the two have the same variance and nothing else in common."""
    task = make_task("linear", 5)
    control, ones = control_prompts(task, generator(), batch=4000, points=8)
    prompts, weights = task.draw(generator(), batch=4000, points=8)
    assert torch.equal(ones, torch.ones(4000, 5))
    torch.testing.assert_close(control.ys, control.xs.sum(2), rtol=1e-5, atol=1e-5)
    assert torch.equal(control.xs, prompts.xs)
    assert len(weights.unique()) > 19_000
    assert_variance_per_prompt(control.ys, task.divisor)
    assert_mean((control.ys * prompts.ys).mean(1), 0.0)


PROMPTS, TOKENS, WIDTH = 400, 6, 5


def whitened(states: Tensor) -> Tensor:
    """States [layers, B, S, D], whitened."""
    layers = range(len(states))
    whiten = whitening(
        lambda: ((layer, slice(None), states[layer]) for layer in layers), len(states)
    )
    return torch.stack([whiten(layer, states[layer]) for layer in layers])


def test_whitened_states_have_no_mean_and_vary_alike_in_all_directions() -> None:
    """They are centred elsewhere at each position, with very unequal directions."""
    mixing, _ = torch.linalg.qr(torch.randn(2, 1, WIDTH, WIDTH, generator=generator(0)))
    sizes = torch.tensor([1.0, 2.0, 0.2, 3.0, 1.0])
    means = torch.randn(2, 1, TOKENS, WIDTH, generator=generator(1))
    states = torch.randn(2, PROMPTS, TOKENS, WIDTH, generator=generator(2)) * sizes @ mixing
    for easy in whitened(states + 5 * means):
        torch.testing.assert_close(easy.mean(0), torch.zeros(TOKENS, WIDTH), atol=1e-3, rtol=0)
        covariance = easy.flatten(0, 1).T.cov(correction=0)
        torch.testing.assert_close(covariance, torch.eye(WIDTH), atol=1e-3, rtol=0)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_states_that_are_the_same_in_all_prompts_stay_at_rest(value: float) -> None:
    states = torch.full((1, PROMPTS, TOKENS, WIDTH), value)
    states += value * 1e-7 * torch.randn(states.shape, generator=generator())
    assert whitened(states).abs().max() < 0.1
