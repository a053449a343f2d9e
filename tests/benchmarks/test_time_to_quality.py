"""The race to a stated error: what is measured when, what is refused, and that it goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.benchmarks.time_to_quality.__main__ import main
from looplab.benchmarks.time_to_quality.race import race, reached, report, row_numbers
from looplab.benchmarks.time_to_quality.settings import QualitySettings, Target, known_targets
from looplab.conf.compose import commands
from looplab.conf.groups import choices
from looplab.evaluation import evaluate, load_run
from looplab.evaluation.bootstrap import numbers
from looplab.experiments.plan import Flops
from looplab.training import train
from looplab.training.assemble import build_curriculum, build_model, build_task

TINY = [
    *("task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2", "loops.b=3"),
    *("loops.T=2", "training.steps=40", "training.batch_size=16", "training.warmup=4"),
    *("curriculum.dims.start=null", "curriculum.loops.start=2", "curriculum.loops.intervals=[10]"),
]


def settings(folder: Path, **more: Any) -> QualitySettings:
    plain: dict[str, Any] = {"task": "linear", "seeds": 2, "prompts": 48, "measurements": 4}
    return QualitySettings(**plain | {"target": 0.5, "k": (2, 4), "folder": str(folder)} | more)


def results(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("time_to_quality.json")
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = settings(tmp_path, to_end=True)
    shown = race(asked, TINY)
    found = results(tmp_path)
    assert [row["label"] for row in found["rows"]] == ["paper", "fast"]
    assert {row["track"] for row in found["rows"]} == {"other prompts"}  # than the scale's
    for row in found["rows"]:
        assert row["label"] in shown
        for result in row["results"]:
            assert [point["step"] for point in result["points"]] == [10, 20, 30, 40]
            flops = [point["flops"] for point in result["points"]]
            assert flops == sorted(flops)
            assert result["at_3b"] > 0
            assert set(result["shifts"]) >= {"scaled_x_2"}
    for name in ("cpu_seconds", "flops"):
        (picture,) = tmp_path.rglob(f"error_by_{name}.png")
        assert picture.with_suffix(".csv").exists()
    # What stands there is the error that an evaluation of the run gives.
    point = found["rows"][1]["results"][0]["points"][-1]
    words = ["task=linear", "recipe=fast", *TINY, f"folder={tmp_path / 'alone'}"]
    config = commands([*words, "evaluation.prompts=48"])[0].config
    run = train(config)
    errors = numbers(evaluate(run, config.evaluation)["by_examples"]["model_at_b"]["mean"])
    assert point["error"] == pytest.approx((errors[2] + errors[4]) / 2, rel=1e-5)
    capsys.readouterr()
    assert race(asked, TINY) == shown  # seconds too: nothing was trained again
    assert "loss" not in capsys.readouterr().out


def test_a_training_pauses_at_its_target_and_goes_on(tmp_path: Path) -> None:
    easy = settings(tmp_path, target=5.0, recipes=("fast",), seeds=1)
    race(easy, TINY)
    (run,) = (path.parent for path in tmp_path.rglob("config.yaml"))
    assert load_run(run).step == 10
    race(settings(tmp_path, target=1e-4, recipes=("fast",), seeds=1), TINY)
    parts = load_run(run)
    words = ["task=linear", "recipe=fast", *TINY, f"folder={tmp_path / 'alone'}"]
    whole = train(commands(words)[0].config)
    assert parts.step == 40
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], tensor)


def test_a_measurement_that_was_lost_is_not_made_up(tmp_path: Path) -> None:
    asked = settings(tmp_path, recipes=("fast",), seeds=1, to_end=True)
    race(asked, TINY)
    (path,) = tmp_path.rglob("quality.json")
    path.unlink()
    race(asked, TINY)
    (points,) = (row["results"][0]["points"] for row in results(tmp_path)["rows"])
    assert [point["step"] for point in points] == [40]


def test_a_variant_is_a_row_of_its_own(tmp_path: Path) -> None:
    variant = "training.ema_decay=0.5"
    race(settings(tmp_path, recipes=("fast",), seeds=1, variants=(variant,)), TINY)
    rows = results(tmp_path)["rows"]
    assert [row["label"] for row in rows] == ["fast", f"fast {variant}"]
    averaged, other = (row["results"][0]["points"][-1]["error"] for row in rows)
    assert averaged != other


def test_settings_of_run_py_reach_the_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And stand beside the numbers."""
    ours = ["task=linear", "recipes=[fast]", "seeds=1", "prompts=8", "measurements=1", "k=[2]"]
    words = [*ours, "target=0.5", f"folder={tmp_path}", "precision=bf16"]
    assert main([*words, *TINY]) == 0
    assert f"with precision=bf16 {' '.join(TINY)}" in capsys.readouterr().out
    (path,) = tmp_path.rglob("config.yaml")
    assert load_run(path.parent).config.precision == "bf16"


def test_numbers_of_edited_code_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = settings(tmp_path, recipes=("fast",), seeds=1, to_end=True)
    assert "other code" not in race(asked, TINY)
    edited = "looplab.benchmarks.time_to_quality.race"
    monkeypatch.setattr(f"{edited}.evaluation_sources", lambda *_: {"tasks/linear.py": "new"})
    assert race(asked, TINY).startswith("fast: measured by other code: ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("task=linear target=0.1 k=[11]", "k must be at most 10"),
        ("task=linear target=-1", "target must be above 0"),
        ("task=linear recipes=[fsat]", "recipes cannot be 'fsat'; did you mean 'fast'"),
        ("task=linear seeds=0", "seeds must be at least 1"),
        ("task=tables scale=paper", "target must be given: targets.json has none"),
        ("task=linear training.stps=4", "training.stps is not a setting"),
        ("task=linear target=0.1 variants=[training.ema=0]", "training.ema is not a setting"),
    ],
)
def test_a_mistake_is_one_line_and_trains_nothing(
    words: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), f"folder={tmp_path / 'runs'}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"benchmarks.time_to_quality: {problem}")
    assert said.count("\n") == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_help_names_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for scale, task in known_targets():
        assert scale in choices("scale")
        assert task in choices("task")
        assert task in said


def training(seconds: float, *highs: float, remarks: tuple[str, ...] = ()) -> dict[str, Any]:
    """Measurements after 7, 14, … steps, each of which takes as long."""
    points = [
        {"step": 7 * i, "flops": 7e9 * i, "error": high - 0.1, "low": high - 0.2, "high": high}
        | {"seconds": seconds * i, "cpu_seconds": seconds * i}
        for i, high in enumerate(highs, 1)
    ]
    return {"points": points, "remarks": list(remarks)}


def judged(**results: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The text and the rows of a race with these trainings."""
    base = next(iter(results.values()))
    asked, target = QualitySettings(task="linear", seeds=len(base)), Target(0.2, (10,))
    rows = [
        {"label": label, "track": "A", **row_numbers(of_row, base, asked, target)}
        for label, of_row in results.items()
    ]
    return report(rows, asked, target), rows


def test_a_target_is_reached_with_its_interval() -> None:
    found = training(1, 0.51, 0.5, 0.4)
    assert reached(found, Target(0.5, ())) == found["points"][1]
    assert reached(found, Target(0.3, ())) is None


def test_the_ratio_is_paired_by_seed() -> None:
    text, (_, fast) = judged(
        slow=[training(seconds, 0.1) for seconds in (40.0, 10.0, 30.0)],
        fast=[training(seconds, 0.1) for seconds in (10.0, 5.0, 10.0)],
    )
    ratio = fast["ratio"]
    assert ratio["ratio"] == pytest.approx((4 * 2 * 3) ** (1 / 3))
    # Student's t with two degrees of freedom leaves 5 % above 2.92.
    logs = [math.log(x) for x in (4, 2, 3)]
    mean = sum(logs) / 3
    half = 2.91999 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert ratio["low"] == pytest.approx(math.exp(mean - half), rel=1e-4)
    assert fast["median"]["cpu_seconds"] == 10
    assert "2.88" in text


def test_a_seed_that_fails_to_reach_it_makes_no_ratio() -> None:
    reaching = training(2.0, 0.1, remarks=("trained by other code: x",))
    text, (_, other) = judged(a=[reaching, reaching], b=[reaching, training(2.0, 0.9)])
    assert text.startswith("all: trained by other code: x\n")
    assert other["ratio"] is None
    assert other["median"]["cpu_seconds"] is None


@pytest.mark.parametrize("model", ["looped", "standard"])
@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_flops_are_those_of_a_count_by_hand(model: str, recipe: str) -> None:
    words = [f"model={model}", *(w for w in TINY if "loops." not in w or model == "looped")]
    config = commands(["task=linear", f"recipe={recipe}", *words])[0].config
    task = build_task(config)
    found = Flops(config, build_model(config, task), build_curriculum(config, task))
    D, tokens, batch = 16, 2 * 5 - 1, 16
    a_loop = 2 * 12 * D**2 * tokens + 4 * tokens**2 * D
    read_in, read_out = 6 * 2 * D * tokens, 6 * D * tokens  # forward and backward
    if model == "standard":
        layers = config.model.n_layer
        wanted = 40 * batch * (3 * layers * a_loop + read_in + read_out)
    else:  # ten steps of two loops, then three, of which two with gradients and in the loss
        layers = 1
        outside = read_in + 2 * read_out
        wanted = 10 * batch * (6 * a_loop + outside) + 30 * batch * (7 * a_loop + outside)
    if recipe == "fast":  # Newton-Schulz of four 16 x 16 and two 16 x 64, five times a step
        square, wide = 6 * 16**3, 4 * 16**2 * 64 + 2 * 16**3
        wanted += 40 * layers * 5 * (4 * square + 2 * wide)
    assert found(40) == pytest.approx(wanted, rel=1e-9)
    assert found(0) == 0
