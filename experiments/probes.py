"""What loops hold inside, by probes of XᵀY and of the least-squares weights (arXiv 2311.12424,
Figure 8).

The entry of `settings`, one, is those of `python -m probing`, without `run`. The result, under
"probing", has the contents of probing.json of each seed, in a list for each label.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from scipy.special import ndtri

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation import load_run
from looplab.probing.probe import probe, stored
from looplab.probing.report import by_layer
from looplab.probing.results import Probing
from looplab.probing.settings import ProbingSettings

from .claims import Estimate, Evidence, NotMeasured
from .definition import words_of
from .in_context import of_paper
from .measuring import Measurement, Request
from .statistics import LEVEL, over_seeds


def measure(request: Request) -> Measurement:
    """Probe each run, or read what is stored in its folder; a run that cannot be probed is said in
    `missing`. Raises ConfigError for invalid settings."""
    given = request.only_settings("the probes", "run", why="its own runs are probed")
    probed: dict[str, list[Probing]] = {}
    missing = []
    for measured in request.runs:
        settings = build(ProbingSettings, {**given, "run": measured.path})
        settings.check()
        what = f"probes of {measured.label}, seed {measured.config.seed}"
        try:
            run = load_run(measured.path)
            result = stored(run, settings) if request.stored_only else probe(run, settings)
        except RunError as error:
            missing.append(f"{what}: {error}")
            continue
        if result is None:
            words = ["python", "-m", "probing", f"run={measured.path}", *words_of(given)]
            missing.append(f"{what}: not measured yet: {shlex.join(words)}")
        else:
            probed.setdefault(measured.label, []).append(result)
    names = dict.fromkeys(name for rs in probed.values() for r in rs for name in r["targets"])
    panels = []
    for name in names:
        first = next(r for rs in probed.values() for r in rs if name in r["targets"])
        task = f"{first['task'].replace('_', ' ')}, d = {first['dims']}"
        title = f"{first['targets'][name]['label']}; {task}"
        file = f"probing-{name.replace('_', '-')}"
        panels.append(replace(by_layer(name, probed), name=file, title=title))
    return Measurement({"probing": probed} if probed else {}, panels, missing)


_WHAT = {"gradient": "XᵀY, the gradient at zero,", "least_squares": "the least-squares weights"}
_Z = float(ndtri((1 + LEVEL) / 2))


def _last_over_middle(evidence: Evidence, family: str, target: str) -> Estimate:
    """The probes' error at the last layer (or loop b) over that at the middle one, a value for each
    run."""
    ratios, spreads = [], []
    for label, seeds in _labels(evidence, family).items():
        for probing in _of_label(evidence, label, seeds):
            if target not in probing["targets"]:
                raise NotMeasured(f"{label} was not probed for {target}")
            error, last = probing["targets"][target]["error"], probing["b"]
            middle = last // 2
            if len(error["mean"]) <= last or middle < 1:
                raise NotMeasured(f"{label} was not probed to its end")
            ratio = error["mean"][last] / error["mean"][middle]
            # As if the two errors were independent, which only widens the interval: they are
            # measured on the same prompts.
            relative = [
                (error["high"][i] - error["low"][i]) / (2 * _Z) / error["mean"][i]
                for i in (last, middle)
            ]
            ratios.append(ratio)
            spreads.append(ratio * (relative[0] ** 2 + relative[1] ** 2) ** 0.5)
    return over_seeds(ratios, spreads, log=True)


def _labels(evidence: Evidence, family: str) -> dict[str, int]:
    """The labels of the finished models of a family that were probed, with their seeds."""
    probed = evidence.result("probing")
    labels: dict[str, int] = {}
    for member in evidence.where(family=family, name="linear"):
        if member.label in probed:
            labels[member.label] = labels.get(member.label, 0) + 1
    if not labels:
        raise NotMeasured(f"no probed {family} model")
    return labels


def _of_label(evidence: Evidence, label: str, seeds: int) -> list[Mapping[str, Any]]:
    """The probings of a label; NotMeasured if one is of an unfinished run."""
    probings: list[Mapping[str, Any]] = evidence.result("probing", label)
    if len(probings) > seeds:
        raise NotMeasured(f"{label}: {len(probings)} probings of {seeds} finished runs")
    for probing in probings:
        for remark in probing.get("remarks", ()):
            if "unfinished" in remark:
                raise NotMeasured(f"{label}: {remark}")
    return probings


def _probe_claim(
    family: str, target: str, sentence: str, holds_if: Literal["above", "below"], published: str
) -> None:
    @of_paper(
        f"fig08_{family}_{target}",
        sentence,
        figure="Figure 8",
        quantity=f"error of the probes of {_WHAT[target].rstrip(',')} at the end over that halfway",
        line=1.0,
        holds_if=holds_if,
        published=published,
    )
    def probe(evidence: Evidence) -> Estimate:
        return _last_over_middle(evidence, family, target)


for _target, _looped, _standard in (
    ("gradient", "0.85 (.3596 / .4211)", "1.44 (.6191 / .4307)"),
    ("least_squares", "0.89 (.2983 / .3358)", "1.55 (.5223 / .3363)"),
):
    _probe_claim(
        "looped",
        _target,
        f"A looped model's state tells {_WHAT[_target]} better and better up to the last loop.",
        "below",
        _looped,
    )
    _probe_claim(
        "standard",
        _target,
        f"A standard model's state tells {_WHAT[_target]} best in its middle layers and worse at "
        "the end.",
        "above",
        _standard,
    )
