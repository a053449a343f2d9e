"""Runs, evaluations and comparisons in a notebook: by path and by the names of settings."""

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

from looplab.conf.mistakes import ConfigError, RunError
from looplab.show.compare import compare
from looplab.show.evaluate import evaluate
from looplab.show.figures import EVALUATION_PANELS
from looplab.show.plotting import plot
from looplab.show.report import Result
from looplab.training import Run
from looplab.training.run_folder.files import write_record


def test_a_path_its_errors_and_what_is_shown(
    tiny_run: Run, undrawn: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for of in (tiny_run.errors, lambda: plot(tiny_run)):
        with pytest.raises(RunError, match=r"not evaluated at step 40: evaluate\(run\) first"):
            of()
    with pytest.raises(ConfigError, match=r"evaluation\.promts is not .* did you mean 'prompts'\?"):
        evaluate(tiny_run, promts=8)
    result = evaluate(str(tiny_run.path), prompts=8, loops=6)
    assert (result["prompts"], result["loops"]) == (8, 6)
    frame = tiny_run.errors()
    assert list(frame.k) == list(range(7))
    assert list(frame.lasso_high) == result["by_examples"]["lasso"]["high"]
    assert {"model_mean", "model_at_b_low"} <= {*frame.columns}
    for by in ("loop", "by_loop"):  # as the result calls it, too
        assert list(tiny_run.errors(by).model_mean) == result["by_loop"]["model"]["mean"]
    assert tiny_run.errors("by_examples").equals(frame)
    with pytest.raises(ConfigError, match="by cannot be 'lop'; did you mean 'loop'"):
        tiny_run.errors("lop")
    assert "40 of 40" in repr(tiny_run)
    assert "finished" in tiny_run._repr_html_()
    assert len(repr(result)) < 2000
    assert result._repr_html_().startswith("<table")
    monkeypatch.chdir(tiny_run.path.parent)
    compared = compare([tiny_run.path], prompts=8)
    assert Path(compared["path"]).parent == Path("runs")
    assert compared._repr_html_().startswith("<table")
    drawn: list[tuple[Run | Result, str]] = [
        (tiny_run, "training"), (result, "halting"), (compared, "error_by_loop"),
    ]  # fmt: skip
    for each, what in drawn:
        axes = plot(each, what)
        assert axes.lines
        assert plot(each, what, axes) is axes
    assert plot(compared["path"]).lines  # on the next day
    pyplot.close("all")


def test_a_wrong_name_is_told_from_an_evaluation_that_is_missing(tiny_run: Run) -> None:
    with pytest.raises(ConfigError, match="what cannot be 'nope'; expected one of above_optimal, "):
        plot(tiny_run, "nope")
    for name in (*EVALUATION_PANELS, "shift_noise"):
        with pytest.raises(RunError, match="is not evaluated"):
            plot(tiny_run, name)


def test_a_wrong_argument_of_plot_is_a_line(tiny_run: Run, undrawn: object) -> None:
    result = evaluate(tiny_run, prompts=8)
    axes = plot(result, labels={"looped, 4 loops": "ours", "predicting zero": "nothing"})
    first, *_, last = axes.get_legend_handles_labels()[1]
    assert (first, last) == ("ours", "nothing")
    wrong: dict[str, dict[str, Any]] = {
        "run must be a run, a folder or a result, got 3": {"run": 3},
        "run must be a result of evaluate, compare or train_grid, got a dict": {"run": {"k": 1}},
        "is no run folder": {"run": tiny_run.path.parent},
        "what cannot be 'error'; did you mean 'error_by_examples'": {"what": "error"},
        "ax must be matplotlib's axes, got ": {"ax": [axes, axes]},
        "labels must be a dict of new names by old ones, got 'ours'": {"labels": "ours"},
        "labels must be a dict of new names by old ones, got {1: 'ours'}": {"labels": {1: "ours"}},
        "labels names 'looped', which no curve is called; did you mean 'looped, 4 loops'": {
            "labels": {"looped": "ours"}
        },
    }
    for said, given in wrong.items():
        with pytest.raises(ConfigError, match=re.escape(said)):
            plot(**{"run": result, **given})
    with pytest.raises(RunError, match="no run is finished"):
        plot({"panels": []})
    write_record(tiny_run.path.parent / "begun.json", "begun", {"members": []})
    with pytest.raises(RunError, match="or its command has not ended"):
        plot(tiny_run.path.parent)
    pyplot.close("all")
