"""Probe a run, and write the results into its folder: probing.json, probing.npz, probing/.

They are shown as text for the terminal and as panels: errors by layer beside the control and
published ones, and 1 − R² by context length.

result = probe(load_run("runs/NAME"), ProbingSettings(run="runs/NAME"))
print(table(result))
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, TableFormat
from looplab.evaluation.bootstrap import Interval, bootstrap, numbers, plain
from looplab.evaluation.kept import Arrays, found
from looplab.evaluation.load import writable
from looplab.evaluation.published import matching
from looplab.evaluation.remarks import remarks
from looplab.evaluation.results import unit
from looplab.show.panel import Curve, Panel, file_name, padded
from looplab.show.tables import Part, Table, document
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.tasks.curves import Curves
from looplab.tasks.linear import Linear, SparseLinear
from looplab.training.assemble import trained_loops
from looplab.training.device import torch_defaults
from looplab.training.run_folder.run import Run, RunError

from .fit import RATES, Fit
from .results import FOLDERS, Probing, Result, kept_and_shown, request_of
from .settings import ProbingSettings
from .targets import default_targets, find_target

KIND = "probing"
_SETTLED = 0.02  # probes whose error falls by no more in a quarter of their training have learned
_PUBLISHED = Path(__file__).with_name("published.json")


@torch_defaults()
def probe(run: Run, settings: ProbingSettings) -> Probing:
    """Train probes on every layer (or loop) and context length of a run, and test them.

    It is kept as by `kept_and_shown`; an interrupted training resumes from its last save. In the
    result, `targets` has what `summary` returns of each target, and the `published` curve, if any.
    Raises ConfigError for targets that the run's task does not
    have, RunError for a run that another process is probing, or whose probes' errors are not
    finite.
    """
    settings, request = _asked(run, settings)

    def compute() -> tuple[Result, Arrays]:
        fit = Fit(run, settings, 1 + (settings.loops or trained_loops(run.config)), folder)
        fit.train()
        arrays = fit.errors()
        if not all(np.isfinite(values).all() for values in arrays.values()):
            problem = "have errors that are not finite; a lower rate helps"
            raise RunError(f"probes of {run.path} {problem}")
        targets = {name: summary(fit, name, arrays) for name in fit.targets}
        for entry in published(run.config, fit.layers) if fit.reference else ():
            if entry["target"] in targets:
                targets[entry["target"]]["published"] = entry
        return {"targets": targets}, arrays

    with writable(run) as place:
        folder = place.path / "probing" / f"probes-{key_of(request)}"
        result = kept_and_shown(place, KIND, request, compute, panels, settings)
        shutil.rmtree(folder, ignore_errors=True)  # they are large, and only this result needs them
    return result


def stored(run: Run, settings: ProbingSettings) -> Probing | None:
    """The result of `probe` where it is stored, else None. Raises as it for settings and runs."""
    _, request = _asked(run, settings)
    result: Probing | None = found(run.path / FOLDERS[KIND] / "kept", KIND, request)
    return result and {**result, "remarks": remarks(run)}


def _asked(run: Run, settings: ProbingSettings) -> tuple[ProbingSettings, dict[str, object]]:
    """The settings for this run, with targets and rate filled in and no control if its task has
    none; and all that the result depends on."""
    names = settings.targets or default_targets(run.task)
    kinds = []
    for name in names:
        target = find_target(name)
        kinds.append(type(target))
        if target.of is not None and not isinstance(run.task, target.of):
            problem = f"it is one of {target.of.name} tasks, which {run.task.name} is not"
            raise ConfigError("targets", f"cannot hold {name}: {problem}")
    # Of dense linear functions all weights can be 1.
    has_control = isinstance(run.task, Linear)
    has_control &= not isinstance(run.task, SparseLinear | ConditionedLinear | Curves)
    control = settings.control and has_control
    if settings.control and not control:
        print(f"no control (w = 1): {run.task.name} is not of dense linear functions", flush=True)
    rate = settings.learning_rate or RATES[settings.protocol]
    settings = replace(settings, targets=names, learning_rate=rate, control=control)
    return settings, request_of(run, settings, probe, *kinds)


def summary(fit: Fit, name: str, arrays: Arrays) -> dict[str, Any]:
    """The arrays of `Fit.errors` and the errors in training of one target, as plain values.

    These are its `label` and `lengths`; its own `variance` by length; the probes' `error` by layer,
    mean over lengths, and `by_length`, rows of layers, with 90 % intervals over prompts, and the
    `seed_spread` over probe seeds; `unexplained`, 1 − R² by layer and length (None where the target
    does not vary); `linear`, the linear probes' error; `control`, whose least error over the layers
    (`control_least`) `minus_control` is less, paired by prompt; and `learning`, the error in
    training over the target's variance, by part of the training, which ends at step `until_step`,
    and layer.
    """

    def interval(errors: NDArray[Any]) -> Interval:
        """Mean and 90 % interval over prompts of errors [..., P]."""
        return bootstrap(np.moveaxis(errors, -1, 0), fit.settings.resamples, fit.settings.seed)

    errors, variance = arrays[f"{name}/probes"], arrays[f"{name}/variance"]
    by_length = errors.mean(1, dtype=np.float64)  # over seeds: [layers, lengths, P]
    by_seed = errors.mean((2, 3), dtype=np.float64)
    one_seed = by_seed.shape[1] == 1
    varies = variance > 1e-9 * variance.max()
    unexplained = by_length.mean(2) / np.where(varies, variance, np.nan)
    sums, steps = fit.learning[name], fit.settings.steps
    # Of the training's parts: step s belongs to part s · parts // steps.
    ends = [-(-steps * part // len(sums)) for part in range(1, len(sums) + 1)]
    counts = torch.tensor(ends).diff(prepend=torch.tensor([0]))[:, None]
    result: dict[str, Any] = {
        "label": fit.targets[name].label,
        "lengths": list(fit.lengths(name)),
        "variance": variance.tolist(),
        "error": interval(by_length.mean(1)).to_json(),
        "seed_spread": [None] * len(errors) if one_seed else by_seed.std(1, ddof=1).tolist(),
        "by_length": {part: v.tolist() for part, v in interval(by_length)._asdict().items()},
        "unexplained": [plain(row) for row in unexplained],
        "learning": {"until_step": ends, "error": (sums.cpu() / counts).tolist()},
        "linear": interval(arrays[f"{name}/linear"].mean(1, dtype=np.float64)).to_json(),
    }
    if "control" in fit.probes:
        control = arrays[f"{name}/control"].mean((1, 2), dtype=np.float64)  # [layers, P]
        band, least = interval(control), int(control.mean(1).argmin())
        result["control"] = band.to_json()
        at_least = {part: float(values[least]) for part, values in band._asdict().items()}
        result["control_least"] = {"layer": least, **at_least}
        result["minus_control"] = interval(by_length.mean(1) - control[least]).to_json()
    return result


def published(config: Config, layers: int) -> list[dict[str, Any]]:
    """The curves printed in a notebook of arXiv 2311.12424's code for a run's task, model, b and T,
    one for each `target`: in `mean` the errors of its probes at `layers` layers (or the read-in and
    loops) as the reference protocol has them, None beyond the last one printed. `steps` are those
    of the probes, on batches of `prompts` prompts, `training_steps` the probed model's."""
    return [
        {**each, "mean": padded([v / config.task.dims for v in each["mean"][:layers]], layers)}
        for each in matching(_PUBLISHED, config)
    ]


def table(result: Probing, form: TableFormat = "text") -> str:
    """For each target: the mean error by layer with its interval, the spread over probe seeds, the
    linear probe's, the published and the control's error; 1 − R² at a few lengths; and whether the
    probes were still learning. The remarks on the run come first."""
    parts: list[Part] = [*result.get("remarks", [])]
    for name in result["targets"]:
        parts += [*([""] if parts else []), *_target_table(result, name)]
    return document(parts, form)


def _target_table(result: Probing, name: str) -> list[Part]:
    axis, target = unit(result["family"]), result["targets"][name]
    lengths, error, entry = target["lengths"], target["error"], target.get("published")
    shown = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    ends = zip(_texts(error["low"]), _texts(error["high"]), strict=True)
    columns: dict[str, Sequence[str]] = {
        axis: [str(layer) for layer in range(len(error["mean"]))],
        "error": _texts(error["mean"]),
        "90 %": [f"{low} to {high}" for low, high in ends],
        "over seeds": _texts(target["seed_spread"]),
        "linear": _texts(target["linear"]["mean"]),
        **({"published": _texts(entry["mean"])} if entry else {}),
    }
    for index in shown:
        columns[f"1-R², i={lengths[index]}"] = _texts(row[index] for row in target["unexplained"])
    what = f"{_error_label(result, name)}: mean over lengths {lengths[0]} to {lengths[-1]}"
    lines: list[Part] = [what, Table(list(columns), list(zip(*columns.values(), strict=True)))]
    if "control" in target:
        least, gap = target["control_least"], target["minus_control"]
        best = int(numbers(gap["mean"]).argmin())
        mean, low, high = _texts(gap[part][best] for part in Interval._fields)
        at_best, lowest, highest = _texts(least[part] for part in Interval._fields)
        lines.append(
            f"control (trained with w = 1): {at_best} at its best, {axis} {least['layer']} "
            f"({lowest} to {highest}); the probes' best, {axis} {best}, less that: {mean} "
            f"({low} to {high})"
        )
    # How far the error fell in the last quarter of the training, if its parts make quarters.
    errors = [sum(row) / len(row) for row in target["learning"]["error"]]
    quarter, remainder = divmod(len(errors), 4)
    if not remainder:
        fall = max(0, 1 - sum(errors[-quarter:]) / sum(errors[-2 * quarter : -quarter]))
        advice = "; more steps would tell more" if fall > _SETTLED else ""
        part = f"in the last quarter of {target['learning']['until_step'][-1]:,} steps"
        lines.append(f"{part} the error in training fell by {fall:.1%}{advice}")
    if entry:
        lines.append(
            f"published: {entry['label']}, after {entry['training_steps']:,} steps; probes after "
            f"{entry['steps']:,} on batches of {entry['prompts']} prompts; {entry['rounding']}; "
            f"{entry['source']}"
        )
    return lines


def _texts(values: Iterable[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.3g}" for value in values]


def panels(result: Probing) -> list[Panel]:
    """`<target>_by_layer`, with the linear probes, and `<target>_by_length`, for each target."""
    found = []
    for name, target in result["targets"].items():
        errors = by_layer(name, {"probe": [result]})
        linear = Curve.of("linear probe", "linear_probe", target["linear"], name="linear")
        found += [replace(errors, curves=[*errors.curves, linear]), _by_length(result, name)]
    return found


def by_layer(name: str, labels: Mapping[str, Sequence[Probing]]) -> Panel:
    """The errors of a target's probes by layer or loop, mean over lengths (the paper's Figure 8): a
    curve for each label, of its runs, with the published one and the control's least error, a line.
    The band of a label with several runs covers each one's own interval."""
    every = [result for results in labels.values() for result in results]
    target = every[0]["targets"][name]
    length = max(len(result["targets"][name]["error"]["mean"]) for result in every)
    curves = []
    for label, results in labels.items():
        targets = [result["targets"][name] for result in results]
        b = None if results[0]["family"] == "standard" else results[0]["b"]
        errors = _over_runs([target["error"] for target in targets], length)
        curves.append(Curve.of(label, results[0]["style"], errors, b=b))
        if "published" in targets[0]:
            entry = targets[0]["published"]
            own, mean = f"published: {entry['label']}", padded(entry["mean"], length)
            curves.append(Curve(label=own, kind="published", mean=mean, name=file_name(own)))
        least = [
            {part: [target["control_least"][part]] * length for part in Interval._fields}
            for target in targets
            if "control" in target
        ]
        if least:
            control = "control" if len(labels) == 1 else f"control, {label}"
            curves.append(Curve.of(control, "control", _over_runs(least, length)))
    units = dict.fromkeys(unit(result["family"]) for result in every)
    return Panel(
        f"{name}_by_layer", f"probes of {target['label']}",
        f"{' or '.join(units)} (0: the read-in)", _error_label(every[0], name), range(length),
        curves, limits=(0, None), levels={"knowing nothing": float(np.mean(target["variance"]))},
    )  # fmt: skip


def _over_runs(bands: Sequence[Mapping[str, Any]], length: int) -> Interval:
    """The mean of several runs' means, between the ends of all their intervals."""
    means, lows, highs = (
        np.array([numbers(padded(band[part], length)) for band in bands])
        for part in Interval._fields
    )
    return Interval(means.mean(0), lows.min(0), highs.max(0))


def _by_length(result: Probing, name: str) -> Panel:
    """1 − R² of some layers. (Errors would not do: the variance of XᵀY grows with the length.)"""
    target, axis = result["targets"][name], unit(result["family"])
    unexplained, last = numbers(target["unexplained"]), len(target["unexplained"]) - 1
    # nan where the target does not vary
    variance = np.where(np.isfinite(unexplained), target["variance"], np.nan)
    ratios = Interval(*(numbers(target["by_length"][part]) / variance for part in Interval._fields))
    curves = []
    for layer in sorted({0, 1, (last + 1) // 4, (last + 1) // 2, last}):
        of_layer = Interval(*(part[layer] for part in ratios))
        curves.append(Curve.of(f"{axis} {layer}", result["style"], of_layer, number=layer))
    return Panel(
        f"{name}_by_length", f"what probes of {target['label']} leave unexplained, by {axis}",
        "context length i (pairs)", f"1 − R² of {target['label']}", target["lengths"], curves,
        limits=(0, None), levels={"knowing nothing": 1.0},
    )  # fmt: skip


def _error_label(result: Probing, name: str) -> str:
    """An axis label for the errors of a target: their divisors and the target's label."""
    label = result["targets"][name]["label"]
    if result["settings"]["protocol"] == "paper":
        return f"mean squared error of {label}"
    return f"mean squared error / d of {label}" + " / n" * (name == "gradient")
