"""The sentences on a grid: effects of its settings, or the tests of a result without any."""

from typing import Any

from looplab.show.page.content import KeptResult
from looplab.show.page.findings import comparisons_of, findings

_VARIED = ["model.tokens", "loops.b"]
_EFFECT: dict[str, Any] = {
    "setting": "model.tokens",
    "value": "pairs",
    "against": "interleaved",
    "over": "3 values of b",
    "seeds": 2,
    "most_seeds": 2,
    "k": 10,
    "ratio": 0.35,
    "low": 0.28,
    "high": 0.44,
    "p, Holm": 0.02,
    "note": "",
}


def _grid(**rows: list[dict[str, Any]]) -> KeptResult:
    about: dict[str, Any] = {"id": "result-0", "sort": "Grids", "path": "runs/grid"}
    about |= {"name": "grid", "title": "", "varied": _VARIED}
    return KeptResult(**{**about, "shared": ["task=linear", "loops.T=2"], **rows})


def _texts(grid: KeptResult) -> list[str]:
    return [comparison.text for comparison in comparisons_of(grid)]


def test_a_grids_first_sentence_is_its_clearest_effect() -> None:
    unsettled: dict[str, Any] = {"ratio": 0.33, "low": 0.08, "high": 1.3, "p, Holm": 0.27}
    unsettled |= {"note": "about 4 seeds would settle it", "over": "", "most_seeds": 3}
    grid = _grid(effects=[_EFFECT | unsettled, _EFFECT], tests=[], settings=[])
    first, second = _texts(grid)
    assert first == (
        "Over 3 values of b, with 2 seeds each, the error at k = 10 of paired tokens is 0.35 times "
        "(0.28 to 0.44) that of interleaved tokens (linear, p = 0.02 by Holm)."
    )
    assert second == (
        "With 2 and 3 seeds each, the error at k = 10 of paired tokens is 0.33 times (0.08 to 1.3) "
        "that of interleaved tokens (linear, p = 0.27 by Holm): not settled; about 4 seeds would "
        "settle it."
    )
    found = findings([], comparisons_of(grid), [])
    assert [finding.text for finding in found] == [first, second]


def test_a_result_without_effects_is_shown_by_its_tests() -> None:
    rows = [
        {"model.tokens": tokens, "loops.b": "4", "seeds": 2, "k": 10}
        for tokens in ("interleaved", "pairs")
    ]
    first, second = (f"model.tokens={row['model.tokens']} loops.b=4" for row in rows)
    test: dict[str, Any] = {"differ in": "model.tokens", "first": first, "second": second}
    test |= {"ratio": 2.5, "low": 2.0, "high": 3.1, "p, Holm": 0.01}
    (text,) = _texts(_grid(tests=[test], settings=rows))
    assert text == (
        "The error at k = 10 of interleaved tokens is 2.5 (2 to 3.1) times that of paired tokens "
        "(linear, b = 4, 2 seeds, p = 0.01 by Holm)."
    )
