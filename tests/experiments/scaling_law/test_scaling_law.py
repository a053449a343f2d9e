"""`python -m experiments.scaling_law`: what it reads, prints, writes, draws and refuses."""

import json
from pathlib import Path

import pytest
from pandas import DataFrame

from looplab.experiments.scaling_law.__main__ import main, read_csv
from looplab.experiments.scaling_law.law import fit_law
from tests.experiments.scaling_law.design import published_law, sample_table

TABLE = sample_table(published_law(), 0.003, 0)
HEADER = "loss,r,budget,N_once,N_rec,D\n"


def written(table: DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


def test_one_command_fits_shows_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(TABLE, tmp_path / "mine.csv")
    words = [f"table={path}", "resamples=20", "clusters=[r,budget]", f"folder={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    (folder,) = tmp_path.glob("scaling_law-mine-*")
    assert out.endswith(f"\n{folder}: scaling_law.json, page.html, figures/\n")
    result = json.loads((folder / "scaling_law.json").read_text())
    fit = fit_law(TABLE, {})
    assert result["fit"]["law"]["phi"] == pytest.approx(fit.law.phi)
    assert result["fit"]["huber"] == pytest.approx(fit.huber)
    assert "of 20 resamples of 24 clusters of rows" in out
    low, high = result["intervals"]["low"]["phi"], result["intervals"]["high"]["phi"]
    assert low < result["fit"]["law"]["phi"] < high
    names = {"scaling_law.png", "scaling_law.csv"}
    assert {each.name for each in (folder / "figures").iterdir()} == names
    # Other settings go beside, the same ones into the same place.
    assert main([*words, "E=1.5"]) == 0
    assert "held: E = 1.5" in capsys.readouterr().out
    assert main(words) == 0
    (other,) = set(tmp_path.glob("scaling_law-mine-*")) - {folder}
    assert json.loads((other / "scaling_law.json").read_text())["fit"]["law"]["E"] == 1.5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table=minima clusters=[rr]", "has no column rr"),
        ("table=minima E=5", "E must be below every loss, got 5 beside 2.3088 in row "),
        ("table=FILE", "FILE has no column N_once; it has a, b"),
    ],
)
def test_what_no_law_fits_is_one_line_and_nothing_written(
    words: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    given = [*words.replace("FILE", str(file)).split(), f"folder={tmp_path / 'runs'}"]
    assert main(given) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("experiments.scaling_law: ")
    assert err.count("\n") == 1
    assert expected.replace("FILE", str(file)) in err
    assert not (tmp_path / "runs").exists()


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}2.5, 4,1e18,0,3e10,1e9\n,,,,,\n2.25,1,10e17,7,5,6\n")
    table = read_csv(path)
    assert table.loss.tolist() == [2.5, 2.25]
    assert table.r.tolist() == [4, 1]
    assert table.N_once.tolist() == [0, 7]
    assert table.budget.tolist() == [1e18, 1e18]
