"""Pictures: their formats and files, the curve of a training, and the numbers of a panel."""

import json
import random
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest
from cycler import cycler
from matplotlib import rc_context, rcParams
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.style import library
from matplotlib.text import Text

from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.curricula import Curriculum, SampledLoops, Schedule
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.statistics import over_seeds
from looplab.show import style
from looplab.show.builders import without_far
from looplab.show.drawing import curve_styles, draw_panel, save_panels
from looplab.show.evaluate import evaluate
from looplab.show.figures import training_panels
from looplab.show.page.svg import svg
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.show.style import styles_of
from looplab.training import Run
from tests.conftest import HOME, batches_of, printed, times_of

SETTINGS = EvaluationConfig(prompts=40, resamples=30, batch_size=16, shifts=("orthogonal_query",))


def curve(label: str, **more: Any) -> Curve:
    given = {"kind": label, "mean": [0.3, 0.5], "low": [0.2, 0.4], "high": [0.4, 0.6]}
    return Curve(label=label, name=label, **{**given, **more})


def panel(*labels: str, **more: Any) -> Panel:
    return Panel("picture", "the title", "k", "error", [1, 2], [*map(curve, labels)], **more)


def test_every_format_is_a_file_of_its_kind_and_stays_when_another_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    contents = []
    for _ in range(2):
        save_panels(tmp_path, [panel("a")], FigureSettings(format=("png", "pdf", "svg")))
        contents.append({kind: (tmp_path / f"picture{kind}").read_bytes() for kind in starts})
    assert contents[0] == contents[1]
    assert all(contents[0][kind].startswith(start) for kind, start in starts.items())
    assert not capsys.readouterr().out
    files = save_panels(tmp_path, [panel("b")], FigureSettings(format=("svg",)))
    assert [path.name for path in files] == ["picture.svg", "picture.csv"]
    assert (tmp_path / "picture.svg").read_bytes() != contents[0][".svg"]
    for kind in (".png", ".pdf"):
        assert (tmp_path / f"picture{kind}").read_bytes() == contents[0][kind]
    line = "from earlier drawings, not drawn now: picture.pdf, picture.png\n"
    assert capsys.readouterr().out.endswith(line)


def test_a_users_settings_of_matplotlib_change_no_picture(tmp_path: Path) -> None:
    """LaTeX, a dark style, odd fonts and sizes: the bytes stay, and his settings after it, too."""
    settings = FigureSettings(format=("png", "pdf", "svg"))
    plain = [path.read_bytes() for path in save_panels(tmp_path, [panel("a", "b")], settings)]
    dark: dict[Any, Any] = library["dark_background"] | {
        "text.usetex": True,
        "font.family": "fantasy",
        "figure.dpi": 31,
        "savefig.dpi": 33,
        "savefig.format": "jpg",
        "savefig.bbox": "tight",
        "axes.prop_cycle": cycler(color=["red"]),
        "axes.formatter.use_locale": True,
        "lines.marker": "s",
        "svg.fonttype": "none",
        "interactive": True,
    }
    with rc_context(dark):
        files = save_panels(tmp_path, [panel("a", "b")], settings)
        assert [path.read_bytes() for path in files] == plain
        assert rcParams["text.usetex"]
        assert rcParams["interactive"]


def test_what_ends_the_import_of_matplotlib_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"text.usetex: \xff\xfe")
    code = "from looplab.show import style; from matplotlib import pyplot"
    for name, value in {"MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(tmp_path)}.items():
        said = printed("-c", code, cwd=HOME, **{name: value})
        assert said.startswith("matplotlib's settings are left out, as it cannot read them: ")
        assert said.count("\n") == 1


def test_panels_of_one_picture_stand_in_one_file(tmp_path: Path, saved: dict[str, Figure]) -> None:
    """Without letters below 7 points in a column."""
    names = [f"a curve with a long name, the {number}th" for number in range(9)]
    panels = [replace(panel(*names), name=name, picture="both") for name in ("one", "two")]
    save_panels(tmp_path, panels, FigureSettings(width="column"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.csv", "both.png"]
    assert len(saved["both"].axes) == 2
    head = (tmp_path / "both.csv").read_text(encoding="utf-8")
    assert head.startswith(f'one: k,"one: {names[0]}_mean"')
    texts = saved["both"].findobj(Text)
    written = [text for text in texts if isinstance(text, Text) and text.get_text()]
    sizes = [float(text.get_fontsize()) for text in written]
    assert len(sizes) > len(names)
    assert min(sizes) >= 7


def test_another_format_is_drawn_and_nothing_computed(tiny_run: Run) -> None:
    evaluate(tiny_run, SETTINGS)
    before = times_of(tiny_run.path, "figures/*")
    with batches_of(tiny_run.model, most=0):
        evaluate(tiny_run, SETTINGS)
        assert times_of(tiny_run.path, "figures/*") == before
        evaluate(tiny_run, SETTINGS, figures=FigureSettings(format=("svg",)))
    after = times_of(tiny_run.path, "figures/*.png")
    assert after == {path: time for path, time in before.items() if path.suffix == ".png"}
    content = json.loads((tiny_run.path / "evaluation.json").read_text())
    assert content["figures"] == {"format": ["svg"], "width": None, "title": True}
    assert {Path(name).suffix for name in content["files"]} == {".svg", ".csv", ".npz"}


def test_the_training_curve_is_a_running_mean_within_what_was_logged() -> None:
    steps = np.arange(1, 1001)
    losses = np.exp(-steps / 300) + np.random.default_rng(0).normal(1, 0.1, len(steps))
    pairs = zip(steps.tolist(), losses.tolist(), strict=True)
    records = [{"step": step, "loss": loss} for step, loss in pairs]
    curriculum = Curriculum(
        dims=Schedule(1, 3, 1, (100,)), points=Schedule.constant(7),
        loops=Schedule(4, 8, 2, (300, 500)), T=2,
    )  # fmt: skip
    loss, growing = training_panels(records, "looped", curriculum)
    (curve,) = loss.curves
    assert len(loss.x) <= 120
    assert loss.picture == growing.picture == "training"
    assert loss.x[-1] == 1000
    mean = np.array(curve.mean, dtype=float)
    truth = np.exp(-np.array(loss.x) / 300) + 1
    assert np.abs(mean - truth)[20:].max() < 0.15
    assert np.diff(mean).std() < losses.std() / 10
    low, high = (np.array(getattr(curve, part), dtype=float) for part in ("low", "high"))
    assert low.min() == losses.min()
    assert high.max() == losses.max()
    # What is drawn is the curriculum, not what was logged of it.
    assert [curve.name for curve in growing.curves] == ["loops", "dims"]
    for each in growing.curves:
        drawn = np.interp(steps, numbers(growing.x), numbers(each.mean))
        assert drawn.tolist() == [getattr(curriculum(int(step) - 1), each.name) for step in steps]
    assert [*loss.marks.values()] == [[101, 201]]


def test_loops_that_are_drawn_are_shown_with_their_ends() -> None:
    loops = SampledLoops("uniform", 6, (0, 1), least=2)
    curriculum = Curriculum(Schedule.constant(3), Schedule.constant(7), loops, T=2)
    records = [{"step": step, "loss": 1.0} for step in (50, 100)]
    (curve,) = training_panels(records, "looped", curriculum)[-1].curves
    assert {(curve.low[i], curve.mean[i], curve.high[i]) for i in (0, -1)} == {(2, 6, 10)}


def test_what_is_compared_differs_in_colour_and_in_grey() -> None:
    """More curves than colours differ in colour and dash."""
    styles = styles_of(["looped"] * 6)
    assert len({style["color"] for style in styles}) == 6
    assert len({style["linestyle"] for style in styles}) == 6
    families = styles_of(["looped", "standard"])
    assert styles_of(["looped", "standard", "standard", "standard"])[:2] == families
    own = [f"mine_{number}" for number in range(30)]
    for kinds in (own, ["shift"] * 30, ["looped", *own, *["shift"] * 30]):
        assert len({tuple(each.items()) for each in styles_of(kinds)}) == len(kinds)


def test_a_baseline_of_ones_own_has_a_colour_of_its_own_in_every_picture() -> None:
    """Beside all known curves, and beside others of one's own; the first alone as beside others."""
    known = [*style.STYLES]
    taken = {each["color"] for each in styles_of(known)}
    chance = random.Random(3)
    for _ in range(100):
        name, other = ("".join(chance.choices(ascii_lowercase, k=6)) for _ in range(2))
        (alone,) = styles_of([name])
        assert styles_of([*known, name])[-1] == styles_of(["looped", name])[-1] == alone
        pair = styles_of([*known, name, other])[-2:]
        assert not {each["color"] for each in pair} & taken
        assert pair[0]["color"] != pair[1]["color"]
        assert pair == styles_of([other, name])[::-1]
    far = [style._differ(each, color) for each in style._OTHERS for color in taken]
    assert all(far)


def test_no_solver_has_a_models_colour() -> None:
    """Lasso's is that of `recurrent`; of several published curves the second had a model's blue."""
    for kind in ("looped", "standard", "recurrent", "mine"):
        solvers = ["lasso", "published", "published", "published", "least_squares", "yours"]
        drawn = [Curve(label=str(i), kind=k, mean=[], solver=True) for i, k in enumerate(solvers)]
        styles = curve_styles([*drawn, curve(kind)])
        assert len({each["color"] for each in styles}) == len(styles)
        assert styles[-1] == curve_styles([curve(kind)])[0]


def test_numbers_are_told_apart_however_near_they_are() -> None:
    colors = [to_rgb(style["color"]) for style in styles_of(["loops"] * 5, [0, 1, 3, 6, 12])]
    assert np.abs(np.diff(colors, axis=0)).max(1).min() > 0.1
    lightness = np.array(colors) @ [0.3, 0.6, 0.1]
    assert (np.diff(lightness) < -0.05).all()


def test_a_solver_far_above_zero_is_in_the_table_and_in_the_picture_where_it_is_named() -> None:
    """So is one that hardly beats predicting zero, as nearest neighbours in many dimensions; one
    that is worse at few examples alone is not."""
    poor = curve("averaging", mean=[9.0, 0.8], solver=True)
    hardly = curve("hardly", mean=[1.9, 0.6], low=[1.7, 0.5], solver=True)
    later = curve("later", mean=[1.9, 0.4], low=[1.7, 0.3], solver=True)
    drawn = replace(panel("looped"), levels={"predicting zero": 1.0})
    solvers = [curve("lasso", solver=True), poor, hardly, later]
    drawn = replace(drawn, curves=[*drawn.curves, *solvers])
    left = without_far(drawn, named=False)
    assert [each.name for each in left.curves] == ["looped", "lasso", "later"]
    assert "averaging_mean" in left.frame()
    assert Panel.read(left.plain()) == left
    assert without_far(drawn, named=True).curves == drawn.curves


def test_a_linear_axis_is_from_zero_and_the_numbers_stay(
    tmp_path: Path, saved: dict[str, Figure]
) -> None:
    tables = []
    for scale in ("log", "linear"):
        settings = FigureSettings(y_scale=scale)
        save_panels(tmp_path, [panel("a", log="y")], settings)
        (axes,) = saved["picture"].axes
        assert axes.get_yscale() == scale
        tables.append((tmp_path / "picture.csv").read_bytes())
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 0.6
    assert tables[0] == tables[1]


def test_panels_whose_curves_look_alike_have_a_legend_each(
    tmp_path: Path, saved: dict[str, Figure]
) -> None:
    def both(*labels: str) -> list[Panel]:
        curves = {
            name: curve(label, kind="loops", number=1.0)
            for name, label in zip(("one", "two"), labels, strict=True)
        }
        plain = replace(panel(), picture="both")
        return [replace(plain, name=name, curves=[each]) for name, each in curves.items()]

    save_panels(tmp_path, both("T = 1", "b = 1"), FigureSettings(width="column"))
    legends = [axes.get_legend() for axes in saved["both"].axes]
    texts = [each.get_texts()[0] for each in legends if each]
    assert [each.get_text() for each in texts] == ["T = 1", "b = 1"]
    assert [each.get_fontsize() for each in texts] == [7, 7]
    save_panels(tmp_path, both("T = 1", "T = 1"))
    assert [axes.get_legend() for axes in saved["both"].axes] == [None, None]
    assert len(saved["both"].legends) == 1


def test_lines_are_named_in_the_legend_and_x_ends_where_the_data_end() -> None:
    axes = Figure().subplots()
    drawn = replace(panel(log="y"), x_label="loop", levels={"predicting zero": 1.0})
    drawn = replace(drawn, curves=[curve("looped", b=2), curve("tied", b=1)])
    drawn.draw(axes)
    named = axes.get_legend_handles_labels()[1]
    assert named == ["looped", "tied", "b of training: 1, 2", "predicting zero"]
    assert not axes.texts
    assert axes.get_xlim() == pytest.approx((1, 2), abs=0.05)
    assert "_child" not in svg(drawn, "figure")  # what matplotlib calls a line without a name


def test_a_frame_has_every_curve_and_its_own_x() -> None:
    panel = Panel(
        "errors", "Errors", "loop", "error", [1, 2, 3],
        [
            Curve(label="a, b", kind="looped", name="a", mean=[0.5, 0.25], low=[0.4, 0.2],
                  high=[0.6, 0.3]),
            Curve(label="own", kind="looped", name="own", mean=[1.0, 2.0, 3.0], x=[4, 5, 6]),
        ],
    )  # fmt: skip
    frame = panel.frame()
    assert list(frame) == ["loop", "a_mean", "a_low", "a_high", "own_x", "own_mean"]
    assert frame["a_mean"].tolist()[:2] == [0.5, 0.25]
    assert np.isnan(frame["a_mean"].tolist()[2])
    assert frame["own_x"].tolist() == [4, 5, 6]


def test_a_mean_is_over_the_seeds_that_have_one() -> None:
    values = [[1.0, None, None, 4.0], [3.0, 5.0, None, float("inf")], [2.0, 7.0, None, None]]
    drawn = Curve.of("a, b", "none", mean_of_seeds(values))
    assert drawn.name == "a-b"
    assert drawn.mean == [2.0, 6.0, None, 4.0]
    assert list(drawn.low)[2:] == [None, None]  # of none and of one seed
    # As claims are judged: Student's interval of two seeds.
    assert (drawn.low[1], drawn.high[1]) == pytest.approx(over_seeds([5.0, 7.0])[1:3])


def test_points_have_error_bars_from_low_to_high() -> None:
    axes = Figure().subplots()
    own = curve("a", points=True, mean=[0.3, 0.5], low=[0.2, 0.1], high=[0.9, 0.7])
    draw_panel(Panel("picture", "the title", "k", "error", [1, 2], [own]), axes)
    (bars,) = axes.collections
    assert isinstance(bars, LineCollection)
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([0.2, 0.9]), pytest.approx([0.1, 0.7])]
