"""What the small commands share: how words become settings, and what a mistake costs."""

import os
import signal
import sys
import time
from dataclasses import dataclass

import pytest

from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.plugins import PREFIX
from looplab.conf.setting import setting


@dataclass(frozen=True)
class Settings:
    steps: int = setting(1, "how many")
    loops: int | None = setting(None, "how far")
    rate: float = setting(1e-3, "how fast")
    control: bool = setting(False, "whether")
    targets: tuple[str, ...] = setting(("a", "b"), "which")

    def check(self) -> None:
        if self.steps < 0:
            raise ConfigError("steps", "must be at least 0")


def test_words_become_settings_and_what_is_measured_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And defaults are shown as words that mean them."""
    words = [line.split()[0] for line in described(Settings).splitlines()]
    assert words == ["steps=1", "loops=null", "rate=0.001", "control=false", "targets=[a,b]"]
    code = run_command("name", Settings, ["steps=2", *words[1:]], str, lambda each: f"{each}!")
    assert code == 0
    assert capsys.readouterr().out == f"{Settings(steps=2)}!\n"
    assert run_command("name", Settings, ["steps=2", "-h"], lambda: "helps\n", _refuse) == 0
    assert capsys.readouterr().out == "helps\n"


@pytest.mark.parametrize(
    ("words", "raised", "code", "said"),
    [
        (["steps=-1"], None, 2, "name: steps must be at least 0\n"),
        ([], ConfigError("run", "is wrong"), 2, "name: run is wrong\n"),
        ([], RunError("it diverged"), 1, "name: it diverged\n"),
        ([], PermissionError(13, "Permission denied", "a"), 1, "Permission denied: 'a'\n"),
    ],
)
def test_what_fails_is_one_line_and_a_code(
    words: list[str],
    raised: Exception | None,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(_: Settings) -> str:
        assert raised is not None
        raise raised

    assert run_command("name", Settings, words, str, measure) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("name: ")
    assert err.endswith(said)
    assert err.count("\n") == 1


def test_a_stop_is_said_and_a_bug_is_not_hidden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(PREFIX)]:
        monkeypatch.delitem(sys.modules, name)  # of other tests: a plugin may be to blame for a bug

    def stop(_: Settings) -> str:
        raise KeyboardInterrupt

    assert run_command("name", Settings, [], str, stop, "stopped; it goes on") == 130
    assert capsys.readouterr().out == "\nstopped; it goes on\n"
    with pytest.raises(AssertionError):
        run_command("name", Settings, [], str, _refuse)


def test_sigterm_ends_what_is_measured_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    ended = []

    def told_to_end(_: Settings) -> str:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except BaseException:
            ended.append(True)  # as one with processes of its own would end them
            raise
        return "went on"

    def ours(number: int, frame: object) -> None:
        raise AssertionError("reached")

    before = signal.signal(signal.SIGTERM, ours)
    try:
        assert run_command("name", Settings, [], str, told_to_end, "stopped; it goes on") == 143
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().out == "\nstopped; it goes on\n"
    assert ended == [True]


def _refuse(_: Settings) -> str:
    raise AssertionError("measured")
