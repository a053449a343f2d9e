"""Words of a small command become its checked settings, or one line that names the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.conf.words import settings_from_words


@dataclass(frozen=True)
class Settings:
    """One of each kind."""

    run: str
    loops: int | None = None
    rate: float = 0.1
    targets: tuple[str, ...] = ()
    how: Literal["paper", "reference"] = "paper"


def test_words_are_typed_and_the_rest_keeps_its_default() -> None:
    assert settings_from_words(Settings, ["run=a/b{2}_c=d"]) == Settings("a/b{2}_c=d")
    words = ["run=a", "loops=30", "rate=1e-3", "targets=[x,y]", "how=reference"]
    assert settings_from_words(Settings, words) == Settings("a", 30, 0.001, ("x", "y"), "reference")
    assert settings_from_words(Settings, ["run=a", "loops=null", "targets=x"]).targets == ("x",)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "run must be given"),
        (["run=a", "lops=3"], "lops is not a setting; did you mean 'loops'"),
        (["run=a", "loops=many"], "loops must be a whole number, got 'many'"),
        (["run=a", "loops=1.5"], "loops must be a whole number, got 1.5"),
        (["run="], "run has no value; key=null says that there is none"),
        (["run=''"], "run must name something, got ''"),
        (["run=a", "how=ppaer"], "how cannot be 'ppaer'; did you mean 'paper'"),
        (["run=a", "run=b"], "run is given twice"),
        (["a"], "'a' is not of the form key=value"),
        (["--run=a"], "'--run=a' is not of the form key=value"),
        (["run=a", "targets=[x"], r"'targets=\[x' cannot be read; quote lists"),
        (["run=${x"], "cannot be read"),
        (["run=a", "loops.b=3"], r"loops\.b is not a setting; loops is one"),
        (["run=1", "run.x=2"], r"run\.x is not a setting; run is one"),
        (["run=a", "how.x=paper"], r"how\.x is not a setting; how is one"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as mistake:
        settings_from_words(Settings, words)
    assert "\n" not in str(mistake.value)
