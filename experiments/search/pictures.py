"""The pictures of a search as panels: importance, parallel coordinates, error over each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..named.curves import curve, file_name, panel, without_interval
from ..named.results import Curve, Panel
from .definition import Search
from .results import best_first
from .study import Trial

_MOST = 24  # trials in a picture of lines
_DARKEST = 64.0  # the number of the darkest curve, on a log scale: see evaluation/style.py


def search_panels(
    search: Search, trials: Sequence[Trial], shares: Mapping[str, float]
) -> list[Panel]:
    """The panels of the finished trials; none where there is none."""
    done = best_first(trials)
    if not done:
        return []
    found = [_importance(search, shares, len(done))] if shares else []
    if len(done) > 1:
        found.append(_parallel(search, done))
    return [*found, *_by_value(search, done)]


def _importance(search: Search, shares: Mapping[str, float], number: int) -> Panel:
    kind, names = search.first.model.family, search.short_names
    found = panel(
        "importance",
        f"what the {search.error_name} depends on, by {number} trials (fANOVA)",
        ("setting", "share of its variance"),
        range(len(shares)),
        [_points("importance", kind, list(shares.values()))],
        levels={"no share": 0.0},
    )
    found["x_names"] = [names[key] for key in shares]
    return found


def _parallel(search: Search, done: Sequence[Trial]) -> Panel:
    """A line for each trial, darker the better, through its values between their ends; the error's
    place is its rank."""
    last = len(done) - 1
    shown = range(len(done))
    title = "settings and error of each trial, the better the darker"
    if len(done) > _MOST:  # evenly from the best to the worst
        shown = [round(index * last / (_MOST - 1)) for index in range(_MOST)]  # type: ignore[assignment]
        title += f" ({_MOST} of {len(done)})"
    curves = []
    for rank in shown:
        trial = done[rank]
        places = [each.scaled(trial.values[each.key]) for each in search.parameters]
        values = without_interval([*places, rank / last])
        label = f"trial {trial.number}: {trial.error:.3g}"
        number = (_DARKEST + 1) ** (1 - rank / last) - 1
        curves.append(curve(label, "loops", values, number))
        curves[-1]["points"] = False  # a line although the axis has names
    names = [*search.short_names.values(), "error"]
    axes = ("setting", "place from low to high; of the error: its rank")
    found = panel("parallel", title, axes, range(len(names)), curves)
    found["x_names"] = names
    return found


def _by_value(search: Search, done: Sequence[Trial]) -> list[Panel]:
    """The error over each setting that is a number."""
    kind, found = search.first.model.family, []
    for each in search.parameters:
        if not each.is_number:
            continue
        trials = sorted(done, key=lambda trial: float(trial.values[each.key]))
        errors = [trial.error for trial in trials if trial.error is not None]
        log = ("x" if each.is_log else "") + ("y" if min(errors) > 0 else "")
        found.append(
            panel(
                f"error-{file_name(each.key)}", f"{search.error_name} by {each.key}",
                (each.key, search.error_name),
                [float(trial.values[each.key]) for trial in trials],
                [_points("trials", kind, errors)],
                log=log,
            )
        )  # fmt: skip
    return found


def _points(label: str, kind: str, values: Sequence[float]) -> Curve:
    found = curve(label, kind, without_interval(list(values)))
    found["points"] = True
    return found
