"""The pictures that an experiment's file asks for, as numbers."""

from collections.abc import Sequence

from looplab.conf.build import config_to_mapping, flatten, setting_of
from looplab.conf.in_words import in_words, labels_of_settings, name_in_words, task_in_words
from looplab.evaluation.groups import Group, grouped
from looplab.evaluation.measured import Measured
from looplab.tasks import SHIFTS

from .builders import Labelled, examples_of, loops_of, values_of
from .panel import Panel, file_name
from .panel_spec import PanelSpec


def panels(specs: Sequence[PanelSpec], runs: Sequence[Measured]) -> list[Panel]:
    """The panels of all pictures: one for each task among the runs, and for each value of the
    setting that the picture is split by."""
    found: list[Panel] = []
    for spec in specs:
        parts: dict[str, list[Measured]] = {}
        for run in runs:
            task = run.config.task
            named = task.name.replace("_", " ") + ("" if task.is_text else f", d = {task.dims}")
            if spec.split:
                named += f", {in_words(spec.split, setting_of(run.config, spec.split))}"
            parts.setdefault(named, []).append(run)
        for named, part in parts.items():
            groups = grouped(part)
            labelled = list(zip(_labels(groups, spec.x), groups, strict=True))
            name = "-".join(filter(None, (spec.kind, file_name(named))))
            found += panels_of(spec, labelled, name, _title(part, spec.split))
    return found


def panels_of(spec: PanelSpec, groups: Sequence[Labelled], name: str, title: str) -> list[Panel]:
    """The panels of one picture of groups of one task: one, or one for each shifted input that all
    runs were read on."""
    if spec.kind == "by_examples":
        return [examples_of(groups, name, title)]
    if spec.kind == "by_loop":
        return [loops_of(groups, name, title)]
    if spec.kind == "by_value":
        return [values_of(groups, name, title, spec.x, name_in_words(spec.x))]
    runs = [run for _, group in groups for run in group.runs]
    return [
        examples_of(groups, f"{name}-{shift}", f"{title}, {SHIFTS[shift].label}", shift)
        for shift in SHIFTS
        if all(f"{shift}/model" in run.arrays for run in runs)
    ]


def _labels(groups: Sequence[Group[Measured]], x: str) -> list[str]:
    """The label of each group, as its runs have it; where two would be one curve, which differ in
    more than the setting `x`, each with what sets it apart."""
    labels = [group.runs[0].label for group in groups]
    values = [setting_of(group.config, x) if x else None for group in groups]
    if len({*zip(labels, values, strict=True)}) == len(groups):
        return labels
    settings = []
    for group in groups:
        flat = flatten(config_to_mapping(group.config))
        settings.append({k: v for k, v in flat.items() if k.replace(".settings.", ".") != x})
    words = labels_of_settings(settings)
    return [f"{label}, {said}" for label, said in zip(labels, words, strict=True)]


def _title(runs: Sequence[Measured], split: str) -> str:
    """The functions of a panel's runs, and their value of the setting that it is split by."""
    config = runs[0].config
    dims = 0 if config.task.is_text else config.task.dims
    sparsities = {run.config.task.settings.get("sparsity", 0) for run in runs}
    title = task_in_words(config.task.name, dims, sparsities.pop() if len(sparsities) == 1 else 0)
    if split in ("", "task.sparsity"):  # which the words have
        return title
    return f"{title}, {in_words(split, setting_of(config, split))}"
