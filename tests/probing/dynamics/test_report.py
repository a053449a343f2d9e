"""The text and the panels of a result made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from looplab.probing.dynamics.measure import panels, report


def curve(*mean: float | None) -> dict[str, list[float | None]]:
    """Means, their intervals a tenth to either side."""
    return {
        "mean": list(mean),
        "low": [each and 0.9 * each for each in mean],
        "high": [each and 1.1 * each for each in mean],
    }


def result(family: str, b: int, loops: int, near: int) -> Any:
    """Values by loop t: t and a tenth for each row in its turn; the rank is unknown at loop 2."""
    t = list(range(loops + 1))
    known: dict[str, Any] = {
        "norm": {"loop": t, "raw": curve(*t), "stream": curve(*(x + 0.1 for x in t))},
        "change": {
            "loop": t[1:],
            "absolute": curve(*(x + 0.2 for x in t[1:])),
            "relative": curve(*(x + 0.3 for x in t[1:])),
        },
        "effective_rank": {
            "loop": t[: near + 1],
            "value": [None if x == 2 else x + 0.7 for x in t[: near + 1]],
        },
        "cosines": {
            "loop": t[1 : near + 1],
            "mean": np.eye(near).tolist(),
            "pairs": curve(0.5),
        },
    }
    if family != "standard":
        known["residual"] = {
            "loop": t[1:],
            "absolute": curve(*(x + 0.4 for x in t[1:])),
            "relative": curve(*(x + 0.5 for x in t[1:])),
            "over_prompts": {
                "median": [x + 0.6 for x in t[1:]],
                "percentile_5": t[1:],
                "percentile_95": t[1:],
            },
            "at_rest": {"below": 1e-6, **curve(0.25)},
        }
        known["contraction"] = {
            "loop": loops,
            "spectral_norm": {**curve(4), "remaining_change": 2e-7, "iterations": 24},
            "spectral_radius": {**curve(0.8), "remaining_change": 3e-5, "iterations": 80},
            "below_one": curve(1.0),
        }
    return {"family": family, "style": family, "b": b, "loops": loops, **known}


def test_a_loops_report() -> None:
    lines = report(result("looped", b=5, loops=30, near=15)).splitlines()
    assert [" ".join(line.split()) for line in lines[:10]] == [
        "loop 0 1 2 5 10 15 30",
        "norm before the LayerNorm 0 1 2 5 10 15 30",
        "norm of the state 0.1 1.1 2.1 5.1 10.1 15.1 30.1",
        "change 1.2 2.2 5.2 10.2 15.2 30.2",
        "change / norm 1.3 2.3 5.3 10.3 15.3 30.3",
        "fixed-point residual 1.4 2.4 5.4 10.4 15.4 30.4",
        "residual / norm 1.5 2.5 5.5 10.5 15.5 30.5",
        "residual / norm, median prompt 1.6 2.6 5.6 10.6 15.6 30.6",
        "effective rank, to loop 15 0.7 1.7 – 5.7 10.7 15.7",
        "",
    ]
    # What is not known at index 0 stands under loop 1 all the same.
    assert lines[3].index("1.2") + 3 == lines[0].index("1 ") + 1
    assert lines[10:] == [
        "cosine of two different increments up to loop 15, mean: 0.5 (90 %: 0.45 to 0.55)",
        "share of prompts converged by loop 30 (residual / norm below 1e-06): "
        "0.25 (90 %: 0.225 to 0.275)",
        "the Jacobian of one loop at loop 30:",
        "  spectral norm, the most that one loop stretches a small difference: "
        "4 (90 %: 3.6 to 4.4)",
        "    24 iterations, of which the last eight changed it by at most 2e-07 of itself",
        "  spectral radius, what each loop leaves of one in the long run: 0.8 (90 %: 0.72 to 0.88)",
        "    80 iterations, of which the last eight changed it by at most 3e-05 of itself",
        "  share of prompts with a spectral radius below 1: 1 (90 %: 0.9 to 1.1)",
    ]


def test_a_standard_models_report() -> None:
    """Every layer where they are few, of one state each, and no fixed point."""
    found = result("standard", b=4, loops=4, near=4)
    found["cosines"]["pairs"] = None
    assert [" ".join(line.split()) for line in report(found).splitlines()] == [
        "layer 0 1 2 3 4",
        "norm of the state 0.1 1.1 2.1 3.1 4.1",
        "change 1.2 2.2 3.2 4.2",
        "change / norm 1.3 2.3 3.3 4.3",
        "effective rank 0.7 1.7 – 3.7 4.7",
    ]


def test_a_loops_panels() -> None:
    """Of six loops, of which the last two rest."""
    found = result("looped", b=3, loops=6, near=6)
    cosines = np.eye(6)
    cosines[0, 1] = -0.5
    cosines[4:] = cosines[:, 4:] = np.nan
    rows = [[None if np.isnan(value) else value for value in row] for row in cosines]
    found["cosines"]["mean"] = rows
    by_name = {panel.name: panel for panel in panels(found)}
    assert list(by_name) == ["norm", "change", "residual", "effective_rank", "increment_cosines"]
    for name, panel in by_name.items():
        assert panel.x_label == ("increment of loop" if name == "increment_cosines" else "loop")
        assert {drawn.b for drawn in panel.curves} == {3}
        assert (panel.log == "y") == (name in ("norm", "change", "residual"))
        axes = Figure().subplots()
        panel.draw(axes)
        assert [text.get_text() for text in axes.texts] == ["b = 3"]
    assert by_name["increment_cosines"].matrix == rows
    assert by_name["increment_cosines"].title.endswith("grey where converged")
    assert by_name["effective_rank"].title.endswith("none where all are alike")
    absolute, relative, median = by_name["residual"].curves
    part = found["residual"]
    assert (absolute.mean, relative.mean) == (part["absolute"]["mean"], part["relative"]["mean"])
    assert (absolute.kind, relative.kind, median.kind) == ("looped", "looped", "median")
    over = part["over_prompts"]
    spread = [over[name] for name in ("median", "percentile_5", "percentile_95")]
    assert [median.mean, median.low, median.high] == spread


def test_a_standard_models_panels() -> None:
    found = result("standard", b=3, loops=6, near=6)
    found["effective_rank"]["value"] = [1.0] * 7
    drawn = panels(found)
    names = ["norm", "change", "effective_rank", "increment_cosines"]
    assert [panel.name for panel in drawn] == names
    for panel in drawn:
        assert panel.x_label.endswith("layer")
        assert {each.b for each in panel.curves} == {None}
        assert not panel.title.endswith(("converged", "alike"))
    assert [each.name for each in drawn[0].curves] == ["stream"]
