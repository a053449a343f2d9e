"""The settings of the benchmarks, and the configurations that they name. No torch and no Hydra
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from looplab.conf.build import flatten
from looplab.conf.compose import command_of
from looplab.conf.mistakes import ConfigError, check_device, check_path
from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig
from looplab.conf.setting import check_settings, setting

Name = Literal["linear", "sparse", "tree", "relu", "standard", "small"]
NAMES: tuple[Name, ...] = get_args(Name)
Backend = Literal["eager", "cpu", "compile", "triton"]
Precision = Literal["fp32", "tf32", "bf16", "mixed"]
# By name: scale, task and model. `standard` is the 12-layer model at the linear task's size.
_NAMED: dict[Name, tuple[str, str, str]] = {
    "linear": ("paper", "linear", "looped"),
    "sparse": ("paper", "sparse_linear", "looped"),
    "tree": ("paper", "decision_tree", "looped"),
    "relu": ("paper", "relu_network", "looped"),
    "standard": ("paper", "linear", "standard"),
    "small": ("small", "sparse_linear", "looped"),
}


@dataclass(frozen=True)
class _Settings:
    """What every benchmark takes."""

    json: str | None = setting(None, "the file for everything measured", check=check_path)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)


@dataclass(frozen=True)
class StepSettings(_Settings):
    """The configurations and the variants whose steps are measured."""

    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps", check=check_device)
    configs: tuple[Name, ...] = setting(NAMES, "the configurations")
    reference: str | None = setting(None, "a checkout of the reference code", check=check_path)
    compiled_reference: bool | None = setting(
        None, "measure it with torch.compile too; null: where backend has compile"
    )
    precision: tuple[Precision, ...] | None = setting(
        None, "of ours; null: [fp32,bf16], on CUDA [tf32,bf16]"
    )
    backend: tuple[Backend, ...] | None = setting(
        None, "of ours; null: cpu, on CUDA [eager,compile,triton]"
    )
    capture: tuple[bool, ...] | None = setting(
        None, "whether ours are CUDA graphs; null: false, on CUDA [false,true]"
    )
    runs: tuple[int, ...] = setting(
        (1,), "of ours that are trained together; seconds are of a step of one", at_least=1
    )
    pairs: int = setting(7, "measurements of each variant", at_least=2)
    least: float = setting(0.2, "seconds of a measurement: it repeats a shorter step", above=0)
    limit: float | None = setting(
        None,
        "seconds that a variant may take to build and warm up, and for each measurement, before it "
        "counts as failed; null: any",
        above=0,
    )
    profile: bool = setting(
        False, "also the time of ours by kernel, on a CPU by operation, in ten steps"
    )


@dataclass(frozen=True)
class ParitySettings(_Settings):
    """The variants whose losses are compared, and the training they share."""

    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps", check=check_device)
    config: Name = setting("sparse", "the configuration")
    variants: tuple[str, ...] = setting(
        ("eager:fp32", "eager:bf16"), "backend:precision or backend:precision:graph, each"
    )
    seeds: int = setting(3, "how many, from 0 on", at_least=1)
    steps: int = setting(500, "of each training", at_least=1)
    fixed: bool = setting(False, "at the curriculum's end from step 0")
    early: tuple[int, ...] = setting((0, 100), "first step and end of the early ones", at_least=0)
    late: tuple[int, ...] = setting((250, 500), "first step and end of the late ones", at_least=0)
    task: Mapping[str, Any] = setting({}, "run.py's in place of the configuration's: task.dims=2")
    model: Mapping[str, Any] = setting({}, "the same of model")
    loops: Mapping[str, Any] = setting({}, "the same of loops")
    curriculum: Mapping[str, Any] = setting({}, "the same of curriculum")
    training: Mapping[str, Any] = setting({}, "the same of training")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        super().check()
        if len(set(self.variants)) < max(2, len(self.variants)):
            raise ConfigError("variants", "must name at least two, none of them twice")
        for name in ("early", "late"):
            span = getattr(self, name)
            if len(span) != 2 or span[0] >= span[1]:
                raise ConfigError(name, f"must be a first step and a later end, got {list(span)}")
            if span[1] > self.steps:
                raise ConfigError("steps", f"must reach the end of {name}, {span[1]}")
        if self.steps > (most := self.run_config().training.steps):
            raise ConfigError("steps", f"goes beyond the {most} of {self.config}")

    def run_config(self) -> Config:
        """The configuration with the given settings in place of its own."""
        groups = ("task", "model", "loops", "curriculum", "training")
        config = named_config(self.config, flatten({name: getattr(self, name) for name in groups}))
        return at_full_size(config) if self.fixed else config


@dataclass(frozen=True)
class KernelSettings(_Settings):
    """The kernels that are timed or compiled."""

    static: bool = setting(False, "compile only, which needs no GPU")
    precision: tuple[Literal["bf16", "tf32", "ieee"], ...] = setting(
        ("bf16", "tf32", "ieee"), "of the kernels' products"
    )
    capability: tuple[float, ...] = setting((8.0, 9.0), "compute capabilities; if static")
    width: int = setting(256, "a multiple of 32 and of heads; if static", at_least=32, at_most=512)
    heads: int = setting(8, "of attention; if static", at_least=1)
    points: int = setting(41, "in a prompt; if static", at_least=1)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        super().check()
        if self.width % 32 or self.width % self.heads:
            raise ConfigError("width", f"must be a multiple of 32 and of heads, got {self.width}")


@dataclass(frozen=True)
class SamplerSettings(_Settings):
    """The prompts that are sampled."""

    reference: str | None = setting(None, "a checkout of the reference code", check=check_path)
    batch: int = setting(64, "prompts at once", at_least=1)
    dims: int = setting(20, "dimensions of x", at_least=3)
    points: int = setting(101, "pairs in a prompt", at_least=1)
    pairs: int = setting(41, "measurements of each side", at_least=2)


def named_config(name: Name, given: Mapping[str, Any] | None = None) -> Config:
    """What `python run.py task=… model=… scale=… recipe=paper` composes for a name, with other
    given settings by key. Steps are measured, not their number: the recipe does not matter."""
    scale, task, model = _NAMED[name]
    groups = {"scale": scale, "task": task, "model": model, "recipe": "paper"}
    return command_of({**groups, **(given or {})}).config


def at_full_size(config: Config) -> Config:
    """The same with the curriculum at its end from the first step (most steps of a run are there),
    and with enough steps that no measurement reaches the rate's decay."""
    loops = GrowthConfig(start=config.loops.b)
    return replace(
        config,
        curriculum=CurriculumConfig(GrowthConfig(), GrowthConfig(), loops),
        training=replace(config.training, steps=500_000),
    )
