"""Runs, evaluations and comparisons in a notebook: by path and by the names of settings."""

from pathlib import Path

import pytest
from matplotlib import pyplot

from looplab.conf.mistakes import ConfigError, RunError
from looplab.evaluation import compare, evaluate
from looplab.evaluation.plotting import plot
from looplab.evaluation.report import Result
from looplab.training import Run


def test_a_wrong_setting(tiny_run: Run) -> None:
    said = r"evaluation\.promts is not a setting; did you mean 'prompts'\?"
    with pytest.raises(ConfigError, match=said):
        evaluate(tiny_run, promts=8)


def test_a_path_its_errors_and_what_is_shown(
    tiny_run: Run, undrawn: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for of in (tiny_run.errors, lambda: plot(tiny_run)):
        with pytest.raises(RunError, match=r"not evaluated at step 40: evaluate\(run\) first"):
            of()
    result = evaluate(str(tiny_run.path), prompts=8, loops=6)
    assert (result["prompts"], result["loops"]) == (8, 6)
    frame = tiny_run.errors()
    assert list(frame.k) == list(range(7))
    assert list(frame.lasso_high) == result["by_examples"]["lasso"]["high"]
    assert {"model_mean", "model_at_b_low"} <= {*frame.columns}
    assert list(tiny_run.errors("loop").model_mean) == result["by_loop"]["model"]["mean"]
    for name in ("by_examples", "by_loop"):  # as the result calls them
        assert list(tiny_run.errors(name).model_mean) == result[name]["model"]["mean"]
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
    pyplot.close("all")
