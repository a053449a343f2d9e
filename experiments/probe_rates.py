"""Adam's rate for the probes: those of probes.py at several rates, as the paper chose it.

Each entry of `settings` is one of probes.py with a `learning_rate`. The result "probe_rates" has by
rate what "probing" has there.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.probing.results import Probing
from looplab.show.panel import Curve, Panel, mean_of_seeds

from . import probes
from .evidence import Evidence, highest
from .question import Answer, Request


def answer(request: Request) -> Answer:
    """Probe each run at each rate, or read what is stored, as `probes.answer`; nothing is drawn
    until all of it is there."""
    by_rate: dict[str, Any] = {}
    missing: list[str] = []
    for entry in request.settings:
        probed = probes.answer(replace(request, settings=[entry]))
        missing += probed.missing
        if probed.results:
            by_rate[f"{entry['learning_rate']:g}"] = probed.results["probing"]
    drawn = _panels(by_rate) if by_rate and not missing else []
    return Answer({"probe_rates": by_rate}, drawn, missing)


def _panels(by_rate: Mapping[str, Mapping[str, Sequence[Probing]]]) -> list[Panel]:
    """Of each target the error by rate, the geometric mean over layers or loops."""
    rates = sorted(map(float, by_rate))
    probed = by_rate[f"{rates[0]:g}"]
    first = next(iter(probed.values()))[0]
    panels = []
    for target, content in first["targets"].items():
        curves = []
        for label, probings in probed.items():
            errors = []  # [rates, seeds]
            for rate in rates:
                at_rate = by_rate[f"{rate:g}"][label]
                errors.append([math.exp(_log_error(probing, target)) for probing in at_rate])
            band = mean_of_seeds(np.transpose(errors), log=True)
            curves.append(Curve.of(label, probings[0]["family"], band))
        name = f"probe-rates-{target.replace('_', '-')}"
        axes = ("Adam's rate", "error, mean over layers or loops", rates)
        panels.append(Panel(name, content["label"], *axes, curves, log="xy"))
    return panels


def rate_over_others(evidence: Evidence, rate: float) -> Estimate:
    """The probes' error at a rate over that at the better of the others, the geometric mean over
    targets and over layers or loops, the greater one of the models."""
    seeds_of = Counter(member.label for member in evidence.where(name="linear"))
    return highest(
        [_of_label(evidence, f"{rate:g}", label, seeds) for label, seeds in seeds_of.items()]
    )


def _of_label(evidence: Evidence, rate: str, label: str, seeds: int) -> Estimate:
    """`rate_over_others` of the runs of a label."""
    logs = {}
    spreads = {}
    for name, probed in evidence.result("probe_rates").items():
        probings = probed.get(label, ())
        logs[name] = [_mean_over_targets(_log_error, probing) for probing in probings]
        spreads[name] = [_mean_over_targets(_relative_error, probing) for probing in probings]
    if rate not in logs or len(logs) < 3 or any(len(values) != seeds for values in logs.values()):
        raise NotMeasured(f"{label}: the probes of {seeds} runs at three rates are not finished")
    others = [name for name in logs if name != rate]
    best = min(others, key=lambda name: float(np.mean(logs[name])))
    ratios = np.exp(np.subtract(logs[rate], logs[best]))
    # As if the errors at two rates were independent, which only widens the interval.
    spread = np.hypot(spreads[rate], spreads[best])
    return over_seeds(ratios, ratios * spread, log=True)


def _mean_over_targets(value: Callable[[Probing, str], float], probing: Probing) -> float:
    return float(np.mean([value(probing, target) for target in probing["targets"]]))


def _log_error(probing: Probing, target: str) -> float:
    """The mean over layers or loops, without the read-in, of the logarithm of the error."""
    return float(np.log(probing["targets"][target]["error"]["mean"][1:]).mean())


def _relative_error(probing: Probing, target: str) -> float:
    """The standard error of `_log_error`, as if layers erred alike."""
    error = probing["targets"][target]["error"]
    layers = range(1, len(error["mean"]))
    return float(np.mean([probes.relative_error(error, layer) for layer in layers]))
