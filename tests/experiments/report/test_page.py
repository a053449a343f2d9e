"""The page: claims with their verdicts, nothing loaded from elsewhere, damaged files named."""

import shutil
from pathlib import Path

import pytest

from looplab.experiments.report.page import write_report
from looplab.experiments.settings import ReportSettings

from .measured import NASTY, Page, experiment_path

LOADED = ("href", "src", "srcset", "action", "data", "poster", "formaction", "background")


def write(folder: Path) -> tuple[str, Page]:
    """The text that is printed, and the page; its folder is beside the runs'."""
    given = ReportSettings(folder=str(folder), output=str(folder.parent / "page"))
    return write_report(given), Page(folder.parent / "page" / "index.html")


@pytest.fixture
def own(measured: Path, tmp_path: Path) -> Path:
    """A copy of the measured folder that a test may change."""
    kept = shutil.ignore_patterns("report_cache")
    return shutil.copytree(measured, tmp_path / "runs", ignore=kept)


def run_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("sparse_linear-*"))


def test_it_says_each_claim_with_its_verdict_and_loads_nothing(measured: Path) -> None:
    said, page = write(measured)
    assert said.startswith("results: 2, runs: 2, claims: 4")
    text = " ".join(page.text.split())
    assert "1 holds, 1 fails, 1 not settled, 1 not measured" in text
    for name in ("holds", "fails", "not settled"):
        row = text.partition(f"A claim that is {name} ")[2][:250]
        assert "1.25 (1.1 to 1.38) < 1.5" in row
        assert f"python run.py experiment=fig02 'x=[{name}]'" in row
    targets = [
        value for _, attributes in page.tags for name, value in attributes.items() if name in LOADED
    ]
    assert len(targets) > 20
    assert not [target for target in targets if not target.startswith(("#", "data:"))]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    # Names that hold HTML are text.
    assert NASTY in page.text
    assert [tag for tag, _ in page.tags].count("script") == 1


def test_damaged_files_are_named_in_a_line_and_the_rest_is_shown(own: Path) -> None:
    first, _ = run_folders(own)
    (first / "evaluation.json").write_text('{"kind": "evalu', encoding="utf-8")
    (own / "broken").mkdir()
    (own / "broken" / "config.yaml").write_text("task: [", encoding="utf-8")
    experiment_path(own, "fig03-small").write_text('{"kind": "exper', encoding="utf-8")
    said, page = write(own)
    text = " ".join(page.text.split())
    for line in (
        f"{own / 'broken'} is not shown",
        "fig03-small/result.json is not shown: cannot be read",
    ):
        assert line in text
        assert line in said
    assert f"{first / 'evaluation.json'} cannot be read" in text
    assert "Error by number of examples" in text
