"""What stands in the pictures of a run's dynamics; their CSVs are compared where a run is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from reloop.evaluation.style import style_of
from reloop.probing.dynamics.figures import draw_dynamics
from tests.probing.dynamics.test_report import result


def made(family: str) -> Any:
    """Of six loops, of which the last two rest."""
    found = result(family, b=3, loops=6, near=6)
    cosines = np.eye(6)
    cosines[0, 1] = -0.5
    cosines[4:] = cosines[:, 4:] = np.nan
    rows = [[None if np.isnan(value) else value for value in row] for row in cosines]
    found["cosines"] |= {"mean": rows}
    return found | {"task": "sparse_linear", "dims": 5, "prompts": 64}


def test_a_loops_pictures(undrawn: dict[str, Figure], tmp_path: Path) -> None:
    found = made("looped")
    files = draw_dynamics(found, tmp_path)
    names = ["change", "effective_rank", "increment_cosines", "norm", "residual"]
    assert sorted(undrawn) == names
    assert sorted(file.name for file in files) == [
        f"{n}.{e}" for n in names for e in ("csv", "png")
    ]
    for name, picture in undrawn.items():
        axes = picture.axes[0]
        expected = "increment of loop" if name == "increment_cosines" else "loop"
        assert axes.get_xlabel() == expected
        assert picture.get_suptitle().startswith("sparse linear, d = 5, looped, 64 prompts")
        assert [text.get_text() for text in axes.texts] == ["b = 3"]
        logarithmic = name in ("norm", "change", "residual")
        assert axes.get_yscale() == ("log" if logarithmic else "linear")
    for name, note in (
        ("increment_cosines", "grey where converged"),
        ("effective_rank", "none where all are alike"),
    ):
        assert undrawn[name].get_suptitle().replace("\n", " ").endswith(note)
    grey = undrawn["increment_cosines"].axes[0].get_facecolor()
    assert to_hex(grey) == to_hex("lightgrey")
    (matrix,) = undrawn["increment_cosines"].axes[0].images
    # Row t of the picture, counted from below, is increment t.
    assert tuple(matrix.get_extent()) == (0.5, 6.5, 0.5, 6.5)
    assert matrix.origin == "lower"
    assert np.asarray(matrix.get_array())[0, 1] == -0.5


def test_the_residuals_picture_shows_means_and_prompts(
    undrawn: dict[str, Figure], tmp_path: Path
) -> None:
    found = made("tied")
    part = found["residual"]
    part["over_prompts"]["percentile_5"] = [0.1 * value for value in part["absolute"]["mean"]]
    draw_dynamics(found, tmp_path)
    axes = undrawn["residual"].axes[0]
    drawn = [np.asarray(each.get_ydata()).tolist() for each in axes.lines[:3]]
    over = part["over_prompts"]
    assert drawn == [part["absolute"]["mean"], part["relative"]["mean"], over["median"]]
    colours = [to_hex(each.get_color()).upper() for each in axes.lines[:3]]
    assert colours == [*[style_of("tied")["color"]] * 2, style_of("median")["color"]]
    heights = np.asarray(axes.collections[2].get_paths()[0].vertices)[:, 1]
    assert heights.min() == over["percentile_5"][0]
    assert heights.max() == over["percentile_95"][-1]


def test_a_standard_models_pictures(undrawn: dict[str, Figure], tmp_path: Path) -> None:
    found = made("standard")
    found["cosines"]["mean"] = np.eye(6).tolist()
    found["effective_rank"]["value"] = [1.0] * 7
    draw_dynamics(found, tmp_path)
    assert sorted(undrawn) == ["change", "effective_rank", "increment_cosines", "norm"]
    for picture in undrawn.values():
        axes = picture.axes[0]
        assert axes.get_xlabel().endswith("layer")
        assert not axes.texts  # no b
        assert not picture.get_suptitle().endswith(("rest", "alike"))
    assert len(undrawn["norm"].axes[0].lines) == 1
