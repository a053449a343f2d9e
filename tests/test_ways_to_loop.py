"""Every model by name from the command line: it trains, is evaluated and drawn; and lanes end where
their weights do. Runs that really learn."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command, Refused

TINY = [
    *("task=linear", "task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=2"),
    *("curriculum.dims.start=null", "training.steps=4", "training.batch_size=4"),
    *("training.checkpoint_every=4", "training.log_every=2", "training.warmup=0"),
    *("evaluation.prompts=4", "evaluation.resamples=4", "evaluation.baselines=[]"),
]
LOOPS = ["loops.b=2"]
LANES = ["model.lanes=2", "model.injection=none", "loops.b=2", "loops.T=2", "loops.grad_loops=all"]
CASES = [
    ["model=FLT", "model.attention=sliding", "model.pattern=SL", "model.n_positions=4", *LOOPS],
    ["model=LT", "model.attention=grouped", "model.n_kv=1", *LOOPS],
    ["model=LT_ai", "model.attention=latent", "model.rank=3", *LOOPS],
    ["model=LT_i", *LOOPS],
    ["model=recurrent", "model.block=llama", *LOOPS],
    [
        *("model=recurrent", "model.block=sandwich", "model.norm=at_readout", "model.n_hidden=12"),
        *("model.rope_base=500", "training.optimizer=muon", *LOOPS),
    ],
    ["model=unnormed", "model.residual_scaling=linear", *LOOPS],
    LANES,
]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", CASES, ids=lambda words: words[0])
def test_a_model_trains_and_is_drawn(command: Command, words: list[str], tmp_path: Path) -> None:
    command(*TINY, *words)
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "figures" / "error_by_loop.png").exists()
    result = json.loads((folder / "evaluation.json").read_text())
    loops = result["by_loop"]["loop"]
    assert loops == list(range(1, loops[-1] + 1))
    assert (loops[-1] == 2) == (words == LANES)


def learned(command: Command, model: str, folder: Path, *more: str) -> list[dict[str, float]]:
    """The log of a training on one-dimensional regression, which was learned: predicting zero
    scores one, and only a model that reads the examples gets under half of that."""
    words = ["task=linear", "task.dims=1", "task.points=8", f"model={model}", "loops.b=4"]
    words += ["model.n_positions=8", "curriculum.dims.start=null", "training.warmup=50"]
    words += ["evaluation.prompts=400", "evaluation.baselines=[]", "evaluation.loops=null"]
    command(*words, "evaluation.max_loops=4", *more)
    (run_folder,) = (folder / "runs").iterdir()
    result = json.loads((run_folder / "evaluation.json").read_text())
    error = result["by_examples"]["model_at_b"]
    assert max(error["high"][1:]) < 0.5 * error["mean"][0]
    return [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["LT", "LT_i", "LT_ai", "FLT", "FLT_res", "recurrent", "unnormed"]
)
def test_a_model_learns_from_its_last_loop_alone(
    command: Command, model: str, tmp_path: Path
) -> None:
    logged = learned(command, model, tmp_path, "training.steps=500")
    assert {(line["loops"], line["window"], line["grad_loops"]) for line in logged} == {(4, 1, 4)}


def test_lanes_are_not_evaluated_beyond_their_weights(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    """Refused before anything is trained, and of a run that is there."""
    reason = "is 3, but model.lanes have weights of their own for each of 2 loops"
    for name in ("loops", "max_loops", "halt_by"):
        assert f"evaluation.{name} {reason}" in refused(*TINY, *LANES, f"evaluation.{name}=3")
    assert not (tmp_path / "runs").exists()
    command(*TINY, *LANES)
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"evaluation.max_loops {reason}" in refused(
        "action=evaluate", f"run={folder}", "evaluation.max_loops=3"
    )
    command("action=evaluate", f"run={folder}", "evaluation.loops=1")
    # Scales look further, here to 16 loops: an evaluation ends with the weights.
    words = [word for word in TINY if not word.startswith("task")]
    command(*words, *LANES, "task=relu_network", "task.points=4", "task.dims=2")


@pytest.mark.parametrize("model", ["looped", pytest.param("tied", marks=pytest.mark.slow)])
def test_one_dimensional_regression_is_learned_in_context(
    command: Command, model: str, tmp_path: Path
) -> None:
    learned(command, model, tmp_path, "training.steps=300", "model.n_embd=32", "model.n_head=4")
