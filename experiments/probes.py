"""The contents of loops, by probes of XᵀY and of the least-squares weights (arXiv 2311.12424,
Figure 8).

`settings` has one entry: the words of `python -m probing` without `run`. The result "probing" lists
for each label the contents of probing.json, one a seed. It has `answer` in place of `measure`:
probes are kept in the runs' own folders.
"""

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation.load import load_run
from looplab.evaluation.statistics import Estimate, NotMeasured, Z, over_seeds
from looplab.probing.probe import by_layer, probe, stored
from looplab.probing.results import Probing
from looplab.probing.settings import ProbingSettings

from .definition import words_of
from .evidence import Evidence, highest
from .question import Answer, Request

_DRAWS = 1000  # of the errors, for how far the place of the least one is certain


def answer(request: Request) -> Answer:
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
        return Answer(missing=missing)
    first = next(iter(probed.values()))[0]
    task = f"{first['task'].replace('_', ' ')}, d = {first['dims']}"
    panels = []
    for name, target in first["targets"].items():
        file = f"probing-{name.replace('_', '-')}"
        title = f"{target['label']}; {task}"
        panels.append(replace(by_layer(name, probed), name=file, title=title))
    return Answer({"probing": probed}, panels, missing)


def last_over_middle(evidence: Evidence, family: str, target: str) -> Estimate:
    """The probes' error at the last layer (or loop b) over that at the middle one, a value for each
    run."""
    ratios = []
    spreads = []
    for probing in _probings(evidence, family):
        error = probing["targets"][target]["error"]
        last = probing["b"]  # errors are listed by loop or layer; 0 is the read-in
        middle = last // 2
        over_middle = error["mean"][last] / error["mean"][middle]
        # As if the two errors were independent, which only widens the interval: they are
        # measured on the same prompts.
        spread = math.hypot(relative_error(error, last), relative_error(error, middle))
        ratios.append(over_middle)
        spreads.append(over_middle * spread)
    return over_seeds(ratios, spreads, log=True)


def place_of_least_error(evidence: Evidence, family: str, target: str) -> Estimate:
    """The layer (or loop) at which the probes err least, over the number of layers (or b), a value
    for each run: 0 is the read-in, 1 the last layer."""
    places = []
    spreads = []
    for probing in _probings(evidence, family):
        error = probing["targets"][target]["error"]
        layers = range(probing["b"] + 1)
        places.append(int(np.argmin(error["mean"][: len(layers)])) / probing["b"])
        # As in `last_over_middle`, as if the errors were independent.
        sizes = [error["mean"][layer] * relative_error(error, layer) for layer in layers]
        noise = np.random.default_rng(0).normal(size=(_DRAWS, len(layers)))
        drawn = error["mean"][: len(layers)] + noise * sizes
        spreads.append(float(drawn.argmin(-1).std()) / probing["b"])
    found = over_seeds(places, spreads)
    return found._replace(low=max(found.low, 0.0), high=min(found.high, 1.0))


def _probings(evidence: Evidence, family: str) -> list[Probing]:
    """What was probed of the models of a family, of all that have finished."""
    probed = evidence.result("probing")
    seeds_of = Counter(member.label for member in evidence.where(family=family, name="linear"))
    found: list[Probing] = []
    for label, seeds in seeds_of.items():
        probings = probed.get(label, ())
        if len(probings) != seeds:
            raise NotMeasured(f"{label}: {len(probings)} probings of {seeds} finished runs")
        found += probings
    return found


def largest_over_least_control(evidence: Evidence, target: str) -> Estimate:
    """The largest error of the probes of any layer or loop over the least of the control's, the
    greatest over families."""
    probed = evidence.result("probing")
    labels = dict.fromkeys(member.label for member in evidence.where(name="linear"))
    if missing := [label for label in labels if not probed.get(label)]:
        raise NotMeasured(f"the probes of {missing[0]} are not finished")
    return highest([_largest_over_least_control(probed[label], target) for label in labels])


def _largest_over_least_control(probings: Sequence[Probing], target: str) -> Estimate:
    ratios = []
    spreads = []
    for probing in probings:
        error = probing["targets"][target]["error"]
        control = probing["targets"][target]["control"]
        largest = int(np.argmax(error["mean"]))
        least = int(np.argmin(control["mean"]))
        over_control = error["mean"][largest] / control["mean"][least]
        spread = math.hypot(relative_error(error, largest), relative_error(control, least))
        ratios.append(over_control)
        spreads.append(over_control * spread)
    return over_seeds(ratios, spreads, log=True)


def relative_error(error: Mapping[str, Sequence[float]], layer: int) -> float:
    """The standard error of the error at a layer over the error itself."""
    width = error["high"][layer] - error["low"][layer]
    return width / (2 * Z) / error["mean"][layer]
