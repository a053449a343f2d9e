"""The values of a grid: the runs of comma-separated values under `-m`, and their checks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from ..mistakes import ConfigError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override, RangeSweep

_MOST = 10_000  # runs of a grid


def check_sweep(override: Override, multirun: bool) -> None:
    """Raises ConfigError, naming the key, for several values without -m, and for none, too many or
    repeated ones in a grid."""
    from hydra.core.override_parser.types import ChoiceSweep, RangeSweep, Sweep

    if not override.is_sweep_override():
        return
    key = str(override.key_or_group)
    if not multirun:
        raise ConfigError(key, "has several values: run them one by one with -m")
    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        _check_range(key, sweep)
    elif not isinstance(sweep, ChoiceSweep) or any(isinstance(x, Sweep) for x in sweep.list):
        raise ConfigError(key, "cannot be read: name the values of a grid, as in key=a,b")
    values = list(override.sweep_string_iterator())
    if not values:
        raise ConfigError(key, "has no value: the grid is empty")
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(key, f"holds {value} twice")


def members(overrides: list[Override]) -> list[list[str]]:
    """The words of each run of a grid. Raises ConfigError where there are too many to list."""
    number, choices = 1, []
    for override in overrides:
        key = override.get_key_element()
        if override.is_sweep_override():
            values = [str(value) for value in override.sweep_string_iterator()]
        else:
            values = [override.get_value_element_as_str()]
        number *= len(values)
        if number > _MOST:
            raise ConfigError(key, f"makes a grid of more than {_MOST:,} runs")
        choices.append([f"{key}={value}" for value in values])
    return [list(member) for member in product(*choices)]


def _check_range(key: str, sweep: RangeSweep) -> None:
    assert sweep.start is not None
    assert sweep.stop is not None
    if sweep.step == 0:
        raise ConfigError(key, "is a range with a step of 0")
    if abs(sweep.stop - sweep.start) / abs(sweep.step) > _MOST:
        raise ConfigError(key, f"makes a grid of more than {_MOST:,} runs")
