"""The text of claims in YAML, and mistakes in it: one line each."""

from pathlib import Path

import pytest

from looplab.conf.files import read_yaml
from looplab.conf.mistakes import ConfigError
from looplab.experiments.claims import all_claims, claims_of
from looplab.experiments.definition import EVALUATION, load, measures, module_of, names
from tests.conftest import printed

_CLAIM = """
title: One more loop
source: a question of my own
published_size: d = 3
measure: beside
claims:
  moves_less:
    sentence: A wide model moves less.
    quantity: a ratio
    below: 1.0
    estimate: move
    with:
      width: 32
  fig03_tied_grows: fig03
small:
  runs:
    - {label: looped, task: linear}
"""
_FILE = """
def measure(runs, settings):
    return {}


def move(evidence, width):
    return evidence.result("beside")[str(width)]
"""


def _read(path: Path) -> None:
    """What a command checks before it trains."""
    for claim in claims_of(load(str(path))).values():
        claim.estimate.function()


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """The file mine.yaml, beside beside.py."""
    (tmp_path / "beside.py").write_text(_FILE, encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(_CLAIM, encoding="utf-8")
    return path


def test_a_claim_is_read_from_a_file_and_from_another_experiment(question: Path) -> None:
    own, other = claims_of(load(str(question))).values()
    assert (own.name, own.line, own.holds_if) == ("moves_less", 1.0, "below")
    assert (own.source, own.published_size) == ("a question of my own", "d = 3")
    assert own.estimate.function().__name__ == "move"
    assert other == all_claims()["fig03_tied_grows"]
    assert other.statement == "ICL-8"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("below: 1.0", "belo: 1.0", "claims.moves_less.belo is not a setting; did you mean"),
        ("below: 1.0", "below: low", "claims.moves_less.below must be a number"),
        ("    below: 1.0\n", "", "claims.moves_less must have a line: below, above, or both"),
        (
            "estimate: move",
            "estimate: moves",
            "beside.py has no such function; did you mean 'move'",
        ),
        ("width: 32", "wide: 32", "does not fit move: missing a required argument: 'width'"),
        ("grows: fig03", "grows: fig04", "cannot hold 'fig03_tied_grows'"),
        ("fig03_tied_grows: fig03", "fig06_scaled_x_3: fig06", "it is now fig06_scaled_x_3_is"),
        ("measure: beside", "measure: besides", "measure cannot be 'besides'; expected one of"),
        ("measure: beside", "measure: engine", "measure cannot be 'engine'; expected one of"),
        ("measure: beside", "estimators: none_such", "experiments/ has no none_such.py"),
    ],
)
def test_a_mistake_is_one_line(question: Path, old: str, new: str, message: str) -> None:
    assert old in _CLAIM
    question.write_text(_CLAIM.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        _read(question)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_claims_in_the_form_of_before_are_told_the_new_one(question: Path) -> None:
    listed = read_yaml(_CLAIM) | {"claims": ["fig03_tied_grows"]}
    question.write_text(str(listed), encoding="utf-8")
    with pytest.raises(ConfigError, match="claims must be a mapping: the name of a claim"):
        load(str(question))
    code = (
        "import looplab\ntry: from looplab import claim\nexcept ImportError as error: print(error)"
    )
    (line,) = printed("-c", code).splitlines()
    assert line.startswith('looplab.claim is gone: write EXPERIMENT = {"claims": {"moves_less":')


def test_reading_needs_no_torch() -> None:
    """Claims, and the pages that say how they stand; functions are not imported either."""
    code = (
        "import sys\n"
        "from tests.golden import claims_page\n"
        "assert len(claims_page.pages()) > 5\n"
        "import looplab.gallery\n"
        "print('torch' in sys.modules, 'looplab.experiments.in_context' in sys.modules)"
    )
    assert printed("-c", code) == "False False\n"


def test_measures_are_the_files_with_the_function() -> None:
    for name in measures():
        assert hasattr(module_of(name), "measure") != hasattr(module_of(name), "answer")
    used = {load(name).measure for name in names()} - {EVALUATION}
    assert used == set(measures())


def test_every_claim_names_a_function_that_takes_its_arguments() -> None:
    for claim in all_claims().values():
        assert claim.estimate.function().__doc__, claim.name


def test_the_text_of_a_claim_stands_once() -> None:
    written = [
        name
        for experiment in map(load, names())
        for name, text in experiment.claims.items()
        if not isinstance(text, str)
    ]
    assert len(written) == len(set(written)) == len(all_claims())
