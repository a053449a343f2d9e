"""The page: claims with their verdicts, nothing loaded from elsewhere, damaged files named; what
its pictures take from matplotlib's SVG, which no documentation promises."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from looplab import main as run
from looplab.show.page import page
from looplab.show.page.svg import FONTS, HASH, HEADER, KEPT_IDS, OTHER_IDS, drawn_svg, svg
from looplab.show.panel import Curve, Panel
from looplab.show.settings import ReportSettings
from tests.test_cli import TINY

from .conftest import NASTY, Page, experiment_path

LOADED = ("href", "src", "srcset", "action", "data", "poster", "formaction", "background")


def write(folder: Path) -> tuple[str, Page]:
    """The text that is printed, and the page; its folder is beside the runs'."""
    given = ReportSettings(folder=str(folder), output=str(folder.parent / "page"))
    return page.write_report(given), Page(folder.parent / "page" / "index.html")


@pytest.fixture
def own(measured: Path, tmp_path: Path) -> Path:
    """A copy of the measured folder that a test may change."""
    return shutil.copytree(measured, tmp_path / "runs")


def test_it_says_each_claim_with_its_verdict_and_loads_nothing(measured: Path) -> None:
    said, shown = write(measured)
    assert said.startswith("results: 2, runs: 2, claims: 4")
    text = " ".join(shown.text.split())
    assert "4 claims: 1 holds, 1 fails, 1 is not settled, 1 is not measured" in text
    for name in ("holds", "fails", "not settled"):
        row = text.partition(f"A claim that is {name} ")[2][:250]
        assert "1.25 (1.1 to 1.38) < 1.5" in row
    assert text.count("python run.py experiment=fig02") == 1
    targets = [
        value
        for _, attributes in shown.tags
        for name, value in attributes.items()
        if name in LOADED
    ]
    assert len(targets) > 20
    assert all(target.startswith(("#", "data:")) for target in targets)
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    # Names that hold HTML are text.
    assert NASTY in shown.text
    assert [tag for tag, _ in shown.tags].count("script") == 1


def test_first_it_says_what_was_found_then_what_fails(measured: Path) -> None:
    text = " ".join(write(measured)[1].text.split())
    said = text.partition("What was found")[2].partition("Experiments")[0]
    found, _, fails = said.partition("✗ fails")
    assert (
        "A claim that is holds: ratio is 1.25 (1.1 to 1.38), which should be < 1.5, 2 seeds."
        in found
    )
    assert "A claim that is fails: ratio is" in fails
    assert "2 more claims: 1 is not settled, 1 is not measured." in said
    assert "ABC-1 fails, by 2 claims: A or B." in text


def test_damaged_files_are_named_in_a_line_and_the_rest_is_shown(own: Path) -> None:
    first = min(own.glob("sparse_linear-*"))
    (first / "evaluation.json").write_text('{"kind": "evalu', encoding="utf-8")
    (own / "broken").mkdir()
    (own / "broken" / "config.yaml").write_text("task: [", encoding="utf-8")
    experiment_path(own, "fig03-small").write_text('{"kind": "exper', encoding="utf-8")
    said, shown = write(own)
    text = " ".join(shown.text.split())
    for line in (
        f"{own / 'broken'} is not shown",
        "fig03-small/result.json is not shown: cannot be read",
    ):
        assert line in text
        assert line in said
    assert f"{first / 'evaluation.json'} cannot be read" in text
    assert "Sparse functions of " in text


def test_of_an_experiment_it_has_nothing_else(measured: Path, tmp_path: Path) -> None:
    given = ReportSettings(str(measured), experiment=("fig02",), output=str(tmp_path))
    assert page.write_report(given).startswith("results: 1, runs: 1, claims: 4")  # with its run
    text = Page(tmp_path / "fig02-small.html").text
    assert "Title" in text.partition("Skip")[0]
    assert "Comparisons" not in text


def test_a_grid_has_its_effects_and_a_row_for_the_seeds_of_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    """So have its runs; another run is not on its page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "svg", lambda panel, name: "<svg></svg>")
    grid_of = ["model.injection=add,multiply", "seed=0,1", "evaluation.baselines=[]"]
    assert run.main(["-m", *TINY, *grid_of, "jobs=1"]) == 0
    (grid,) = Path("runs").glob("grid-*")
    alone, *_ = Path("runs").glob("sparse*-seed0-*")
    (effect,) = csv.DictReader((grid / "effects.csv").read_text(encoding="utf-8").splitlines())
    assert run.main(["action=report", f"runs={grid}"]) == 0
    text = " ".join(Page(Path("report") / f"{grid.name}.html").text.split())
    said = text.partition("What was found")[2].partition("Grids")[0]
    ratio = float(effect["ratio"])
    assert f"With 2 seeds each, the error at k = 6 of multiplied injection is {ratio:.3g} t" in said
    assert f"p = {float(effect['p, Holm']):.2g} by Holm" in said
    rows = text.partition("steps error at b (90 %)")[2]
    assert rows.split()[:5] == ["add", "2:", "0", ",", "1"]
    assert rows.partition(" multiply ")[2].split()[:4] == ["2:", "0", ",", "1"]
    assert run.main(["action=report", f"runs={alone}"]) == 0
    text = Page(Path("report") / f"{alone.name}.html").text
    assert "seed 0" in text
    assert "seed 1" not in text


PANEL = Panel(
    "picture",
    "The title",
    "k",
    "error",
    [1, 2],
    [
        Curve(label="line", kind="looped", mean=[0.3, 0.5], low=[0.2, 0.4], high=[0.4, 0.6]),
        Curve(label="points", kind="lasso", mean=[0.3, 0.5], points=True),
    ],
)


def test_matplotlibs_svg_has_the_names_that_the_page_replaces() -> None:
    text = drawn_svg(PANEL)
    assert [part[:5] for part in re.findall(HEADER, text)] == ["<meta", "<defs"]
    assert re.search(OTHER_IDS, text)
    assert re.search(FONTS, text)
    assert len(re.findall(KEPT_IDS, text)) > len(PANEL.curves)
    references = re.findall(r'(?:href="#|url\(#)([^")]*)', text)
    assert references
    assert all(re.fullmatch(HASH, name) for name in references)


def test_the_ids_of_a_pages_svg_begin_with_its_own_name() -> None:
    text = svg(PANEL, "own")
    ids = re.findall(r' id="([^"]*)"', text)
    assert {"own-curve-0", "own-curve-1", "own-band-0", "own-hit-0", "own-hit-1"} <= {*ids}
    references = re.findall(r'(?:href="#|url\(#)([^")]*)', text)
    assert all(name.startswith("own-") for name in (*ids, *references))
    assert len(ids) == len({*ids})
