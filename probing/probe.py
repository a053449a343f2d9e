"""Probe a run, and write the results into its folder: probing.json, probing.npz, probing/.

They are shown as text for the terminal and as panels: errors by layer beside the control and
published ones, and 1 − R² by context length.

result = probe(load_run("runs/NAME"), ProbingSettings(run="runs/NAME"))
print(table(result))
"""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
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
    Raises ConfigError for targets that the run's task does not have. Raises RunError where another
    process is probing the run, and for errors that are not finite.
    """
    settings, request = _asked(run, settings)

    def compute() -> tuple[Result, Arrays]:
        # `folder` is set below, before this is called; layer 0 is the read-in.
        fit = Fit(run, settings, 1 + (settings.loops or trained_loops(run.config)), folder)
        fit.train()
        arrays = fit.errors()
        if not all(np.isfinite(values).all() for values in arrays.values()):
            problem = "have errors that are not finite; a lower rate helps"
            raise RunError(f"probes of {run.path} {problem}")
        targets = {name: summary(fit, name, arrays) for name in fit.targets}
        if fit.reference:
            for entry in published(run.config, fit.layers):
                if entry["target"] in targets:
                    targets[entry["target"]]["published"] = entry
        return {"targets": targets}, arrays

    with writable(run) as own_run:
        folder = own_run.path / "probing" / f"probes-{key_of(request)}"
        result = kept_and_shown(own_run, KIND, request, compute, panels, settings)
        shutil.rmtree(folder, ignore_errors=True)  # they are large, and only this result needs them
    return result


def stored(run: Run, settings: ProbingSettings) -> Probing | None:
    """The result of `probe` where it is stored, else None. Raises as it for settings and runs."""
    _, request = _asked(run, settings)
    result: Probing | None = found(run.path / FOLDERS[KIND] / "kept", KIND, request)
    if result is not None:
        result["remarks"] = remarks(run)
    return result


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
    is_dense = isinstance(run.task, Linear)
    is_dense &= not isinstance(run.task, SparseLinear | ConditionedLinear | Curves)
    if settings.control and not is_dense:
        print(f"no control (w = 1): {run.task.name} is not of dense linear functions", flush=True)
        settings = replace(settings, control=False)
    rate = settings.learning_rate or RATES[settings.protocol]
    settings = replace(settings, targets=names, learning_rate=rate)
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

    errors = arrays[f"{name}/probes"]
    by_length = errors.mean(1, dtype=np.float64)  # over seeds: [layers, lengths, P]
    # Over lengths and prompts: [layers, seeds].
    by_seed = errors.mean((2, 3), dtype=np.float64)
    seed_spread = [None] * len(errors)
    if by_seed.shape[1] > 1:
        seed_spread = by_seed.std(1, ddof=1).tolist()
    variance = arrays[f"{name}/variance"]
    # A variance below that is rounding, and 1 − R² would be noise over noise.
    varies = variance > 1e-9 * variance.max()
    unexplained = by_length.mean(2) / np.where(varies, variance, np.nan)
    length_intervals = interval(by_length)._asdict()
    linear = arrays[f"{name}/linear"].mean(1, dtype=np.float64)

    sums = fit.learning[name]
    # Step s of the training belongs to part s · parts // steps: `ends` rounds up.
    ends = [-(-fit.settings.steps * part // len(sums)) for part in range(1, len(sums) + 1)]
    counts = torch.tensor(ends).diff(prepend=torch.tensor([0]))[:, None]
    learning = (sums.cpu() / counts).tolist()
    result: dict[str, Any] = {
        "label": fit.targets[name].label,
        "lengths": list(fit.lengths(name)),
        "variance": variance.tolist(),
        "error": interval(by_length.mean(1)).to_json(),
        "seed_spread": seed_spread,
        "by_length": {key: values.tolist() for key, values in length_intervals.items()},
        "unexplained": [plain(row) for row in unexplained],
        "learning": {"until_step": ends, "error": learning},
        "linear": interval(linear).to_json(),
    }
    if "control" in fit.probes:
        control = arrays[f"{name}/control"].mean((1, 2), dtype=np.float64)  # [layers, P]
        control_interval = interval(control)
        best = int(control.mean(1).argmin())
        result["control"] = control_interval.to_json()
        result["control_least"] = {"layer": best}
        for key, values in control_interval._asdict().items():
            result["control_least"][key] = float(values[best])
        result["minus_control"] = interval(by_length.mean(1) - control[best]).to_json()
    return result


def published(config: Config, layers: int) -> list[dict[str, Any]]:
    """The curves printed in a notebook of arXiv 2311.12424's code for a run's task, model, b and T,
    one for each `target`: in `mean` the errors of its probes as the reference protocol has them. It
    has a number for each of `layers` layers (or the read-in and loops), None beyond the last one
    printed. `steps` are those of the probes, on batches of `prompts` prompts, `training_steps` the
    probed model's."""
    entries = matching(_PUBLISHED, config)
    for entry in entries:
        # The notebooks print sums over the d outputs; errors here are means over them.
        means = [value / config.task.dims for value in entry["mean"][:layers]]
        entry["mean"] = padded(means, layers)
    return entries


def table(result: Probing, form: TableFormat = "text") -> str:
    """For each target: the mean error by layer with its interval, the spread over probe seeds, the
    linear probe's, the published and the control's error; 1 − R² at a few lengths; and whether the
    probes were still learning. The remarks on the run come first."""
    parts: list[Part] = list(result.get("remarks", []))
    for name in result["targets"]:
        if parts:
            parts.append("")
        parts += _target_table(result, name)
    return document(parts, form)


def _target_table(result: Probing, name: str) -> list[Part]:
    axis = unit(result["family"])
    target = result["targets"][name]
    lengths = target["lengths"]
    error = target["error"]
    entry = target.get("published")
    ends = zip(_texts(error["low"]), _texts(error["high"]), strict=True)
    columns: dict[str, Sequence[str]] = {}
    columns[axis] = [str(layer) for layer in range(len(error["mean"]))]
    columns["error"] = _texts(error["mean"])
    columns["90 %"] = [f"{low} to {high}" for low, high in ends]
    columns["over seeds"] = _texts(target["seed_spread"])
    columns["linear"] = _texts(target["linear"]["mean"])
    if entry:
        columns["published"] = _texts(entry["mean"])
    for index in sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1}):
        unexplained = [row[index] for row in target["unexplained"]]
        columns[f"1-R², i={lengths[index]}"] = _texts(unexplained)
    label = _error_label(result, name)
    rows = list(zip(*columns.values(), strict=True))
    lines: list[Part] = [f"{label}: mean over lengths {lengths[0]} to {lengths[-1]}"]
    lines.append(Table(list(columns), rows))
    if "control" in target:
        control = target["control_least"]
        gap = target["minus_control"]
        best = int(numbers(gap["mean"]).argmin())
        mean, low, high = _texts(gap[key][best] for key in Interval._fields)
        least, least_low, least_high = _texts(control[key] for key in Interval._fields)
        lines.append(
            f"control (trained with w = 1): {least} at its best, {axis} {control['layer']} "
            f"({least_low} to {least_high}); the probes' best, {axis} {best}, less that: {mean} "
            f"({low} to {high})"
        )
    # How far the error fell in the last quarter of the training, if its parts make quarters.
    errors = [sum(row) / len(row) for row in target["learning"]["error"]]
    quarter, remainder = divmod(len(errors), 4)
    if not remainder:
        before = sum(errors[-2 * quarter : -quarter])
        fall = max(0, 1 - sum(errors[-quarter:]) / before)
        advice = "; more steps would tell more" if fall > _SETTLED else ""
        steps = target["learning"]["until_step"][-1]
        lines.append(
            f"in the last quarter of {steps:,} steps the error in training fell by "
            f"{fall:.1%}{advice}"
        )
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
    shown = []
    for name, target in result["targets"].items():
        errors = by_layer(name, {"probe": [result]})
        linear = Curve.of("linear probe", "linear_probe", target["linear"], name="linear")
        shown.append(replace(errors, curves=[*errors.curves, linear]))
        shown.append(_by_length(result, name))
    return shown


def by_layer(name: str, labels: Mapping[str, Sequence[Probing]]) -> Panel:
    """The errors of a target's probes by layer or loop, mean over lengths (the paper's Figure 8): a
    curve for each label, of its runs, with the published one and the control's least error, a line.
    The band of a label with several runs covers each one's own interval."""
    all_results = list(chain.from_iterable(labels.values()))
    # Runs may have different numbers of loops: shorter curves end early (`padded`).
    length = max(len(result["targets"][name]["error"]["mean"]) for result in all_results)
    curves = []
    for label, results in labels.items():
        first = results[0]
        targets = [result["targets"][name] for result in results]
        errors = _over_runs([target["error"] for target in targets], length)
        b = None if first["family"] == "standard" else first["b"]
        curves.append(Curve.of(label, first["style"], errors, b=b))
        if "published" in targets[0]:
            entry = targets[0]["published"]
            mean = padded(entry["mean"], length)
            published_label = f"published: {entry['label']}"
            file = file_name(published_label)
            curves.append(Curve(label=published_label, kind="published", mean=mean, name=file))
        least = []
        for target in targets:
            if "control" in target:
                control = target["control_least"]
                # The same height at every x: the control is a line to fall below, and no curve.
                least.append({key: [control[key]] * length for key in Interval._fields})
        if least:
            control_label = "control" if len(labels) == 1 else f"control, {label}"
            curves.append(Curve.of(control_label, "control", _over_runs(least, length)))
    units = dict.fromkeys(unit(result["family"]) for result in all_results)
    target = all_results[0]["targets"][name]
    return Panel(
        f"{name}_by_layer",
        f"probes of {target['label']}",
        f"{' or '.join(units)} (0: the read-in)",
        _error_label(all_results[0], name),
        range(length),
        curves,
        limits=(0, None),
        levels={"knowing nothing": float(np.mean(target["variance"]))},
    )


def _over_runs(bands: Sequence[Mapping[str, Any]], length: int) -> Interval:
    """The mean of several runs' means, between the ends of all their intervals."""
    rows = defaultdict(list)
    for band in bands:
        for key in Interval._fields:
            rows[key].append(numbers(padded(band[key], length)))
    means = np.mean(rows["mean"], 0)
    return Interval(means, np.min(rows["low"], 0), np.max(rows["high"], 0))


def _by_length(result: Probing, name: str) -> Panel:
    """1 − R² of some layers. (Errors would not do: the variance of XᵀY grows with the length.)"""
    target = result["targets"][name]
    axis = unit(result["family"])
    unexplained = numbers(target["unexplained"])  # [layers, lengths]
    # nan where the target does not vary
    variance = np.where(np.isfinite(unexplained), target["variance"], np.nan)
    ratios = [numbers(target["by_length"][key]) / variance for key in Interval._fields]
    layers = len(unexplained)
    curves = []
    for layer in sorted({0, 1, layers // 4, layers // 2, layers - 1}):
        interval = Interval(*(values[layer] for values in ratios))
        curves.append(Curve.of(f"{axis} {layer}", result["style"], interval, number=layer))
    return Panel(
        f"{name}_by_length",
        f"what probes of {target['label']} leave unexplained, by {axis}",
        "context length i (pairs)",
        f"1 − R² of {target['label']}",
        target["lengths"],
        curves,
        limits=(0, None),
        levels={"knowing nothing": 1.0},
    )


def _error_label(result: Probing, name: str) -> str:
    """An axis label for the errors of a target: their divisors and the target's label."""
    label = result["targets"][name]["label"]
    if result["settings"]["protocol"] == "paper":
        return f"mean squared error of {label}"
    return f"mean squared error / d of {label}" + " / n" * (name == "gradient")
