"""The printed numbers are the paper's."""

from __future__ import annotations

import pytest

from reloop.openml_eval.table2 import printed, source
from reloop.openml_eval.tables.catalogue import TABLES

# As the paper rounds them: standard, looped.
PAPER = {
    720: (0.626, 0.662),
    725: (0.511, 0.504),
    737: (0.656, 0.72),
    803: (0.394, 0.40),
    807: (0.405, 0.416),
    816: (0.463, 0.462),
    819: (0.483, 0.568),
    847: (0.668, 0.757),
    871: (0.532, 0.51),
    42192: (0.65, 0.65),
}


@pytest.mark.parametrize("openml_id", [each.openml_id for each in TABLES])
def test_all_ten_are_there_and_round_to_what_the_paper_has(openml_id: int) -> None:
    found = printed(openml_id)
    assert list(found) == ["standard", "looped"]
    for number, expected in zip(found.values(), PAPER[openml_id], strict=True):
        assert number["mean"] == pytest.approx(expected, abs=2e-3)
        assert 0.003 < number["std"] < 0.016


def test_other_tables_have_none() -> None:
    assert printed(7) == printed(None) == {}
    assert "2311.12424" in source()
