"""Optional packages: what is said of one that is not there, does not load or is another thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.conf.lazy import optional
from reloop.conf.mistakes import ConfigError


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("", "", r"needs some_pack, which is not installed \(pip install some_pack==1\)"),
        ("some_pack/log.txt", "", "needs some_pack, but finds .*some_pack in its place: rename"),
        ("some_pack.py", "x = 1", r"but finds .*some_pack\.py in its place: rename that"),
        ("some_pack.py", "1 / 0", "cannot be loaded here .ZeroDivisionError: division by zero"),
        ("some_pack.py", "import absent_1", "cannot be loaded here .ModuleNotFoundError: No mod"),
    ],
)
def test_what_is_said(
    file: str, content: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    monkeypatch.delitem(__import__("sys").modules, "some_pack", raising=False)
    with pytest.raises(ConfigError, match=problem) as mistake:
        optional("wandb", "some_pack", "init", "some_pack==1")
    assert mistake.value.key == "wandb"
    assert "\n" not in str(mistake.value)
