"""The contents of loops, by probes of XᵀY and of the least-squares weights (arXiv 2311.12424,
Figure 8).

The entry of `settings`, one, is those of `python -m probing`, without `run`. The result, under
"probing", has the contents of probing.json of each seed, in a list for each label.
"""

import shlex
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation.bootstrap import Interval
from looplab.evaluation.load import load_run
from looplab.evaluation.statistics import Estimate, NotMeasured, Z, over_seeds
from looplab.probing.probe import by_layer, probe, stored
from looplab.probing.results import Probing
from looplab.probing.settings import ProbingSettings

from .claims import Evidence
from .definition import words_of
from .in_context import of_paper
from .measuring import Measurement, Request


def measure(request: Request) -> Measurement:
    """Probe each run, or read what is stored in its folder; a run that cannot be probed is said in
    `missing`. Raises ConfigError for invalid settings."""
    given = request.only_settings("the probes")
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
    if not probed:
        return Measurement(missing=missing)
    panels, first = [], next(iter(probed.values()))[0]
    task = f"{first['task'].replace('_', ' ')}, d = {first['dims']}"
    for name, target in first["targets"].items():
        file, title = f"probing-{name.replace('_', '-')}", f"{target['label']}; {task}"
        panels.append(replace(by_layer(name, probed), name=file, title=title))
    return Measurement({"probing": probed}, panels, missing)


_WHAT = {"gradient": "XᵀY, the gradient at zero,", "least_squares": "the least-squares weights"}


def _last_over_middle(evidence: Evidence, family: str, target: str) -> Estimate:
    """The probes' error at the last layer (or loop b) over that at the middle one, a value for each
    run."""
    probed = evidence.result("probing")
    labels = Counter(member.label for member in evidence.where(family=family, name="linear"))
    ratios, spreads = [], []
    for label, seeds in labels.items():
        probings = probed.get(label, ())
        if len(probings) != seeds:
            raise NotMeasured(f"{label}: {len(probings)} probings of {seeds} finished runs")
        for probing in probings:
            error, last = probing["targets"][target]["error"], probing["b"]
            mean, low, high = (
                np.array([error[part][last], error[part][last // 2]]) for part in Interval._fields
            )
            # As if the two errors were independent, which only widens the interval: they are
            # measured on the same prompts.
            relative = (high - low) / (2 * Z) / mean
            ratios.append(mean[0] / mean[1])
            spreads.append(ratios[-1] * float(np.hypot(*relative)))
    return over_seeds(ratios, spreads, log=True)


for _target, _looped, _standard in (
    (
        "gradient",
        "0.85 (.3596 / .4211; least at the last loop)",
        "1.44 (.6191 / .4307; least at layer 7 of 20)",
    ),
    (
        "least_squares",
        "0.89 (.2983 / .3358; least at the last loop)",
        "1.55 (.5223 / .3363; least at layer 10 of 20)",
    ),
):
    _quantity = f"error of the probes of {_WHAT[_target].rstrip(',')} at the end over that halfway"
    _claim = partial(of_paper, figure="Figure 8", quantity=_quantity)
    _claim(
        f"fig08_looped_{_target}",
        f"A looped model's state tells {_WHAT[_target]} better and better up to the last loop.",
        below=1.0,
        published=_looped,
    )(partial(_last_over_middle, family="looped", target=_target))
    _claim(
        f"fig08_standard_{_target}",
        f"A standard model's state tells {_WHAT[_target]} best in its middle layers and worse at "
        "the end.",
        above=1.0,
        published=_standard,
    )(partial(_last_over_middle, family="standard", target=_target))
