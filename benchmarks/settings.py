"""The settings of the benchmarks, and the configurations that they name. No torch here."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from looplab.conf.checks.folders import check_folder
from looplab.conf.compose import command_of
from looplab.conf.mistakes import ConfigError, check_device, check_path
from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig
from looplab.conf.setting import check_settings, setting

Name = Literal["linear", "sparse", "tree", "relu", "standard", "small"]
NAMES: tuple[Name, ...] = get_args(Name)
Backend = Literal["auto", "eager", "cpu", "compile", "triton"]
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
    """The settings that every benchmark takes."""

    json: str | None = setting(None, "the file for everything measured", check=check_path)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        if self.json is not None:
            check_folder("json", str(Path(self.json).parent))


@dataclass(frozen=True)
class StepSettings(_Settings):
    """The configurations and the variants whose steps are measured."""

    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    configs: tuple[Name, ...] = setting(NAMES, "the configurations")
    reference: str | None = setting(None, "a checkout of the reference code", check=check_path)
    compiled_reference: bool = setting(False, "measure it with torch.compile too")
    precision: tuple[Precision, ...] = setting(("fp32", "bf16"), "of ours")
    backend: tuple[Backend, ...] = setting(("auto",), "of ours")
    capture: tuple[bool, ...] = setting((False,), "whether ours are CUDA graphs")
    pairs: int = setting(7, "measurements of each variant", at_least=2)
    limit: float | None = setting(
        None, "seconds for a variant to be built and warm, or measured; null: any", above=0
    )
    profile: bool = setting(
        False, "also the time of ours by kernel, on a CPU by operation, in ten steps"
    )


@dataclass(frozen=True)
class ParitySettings(_Settings):
    """The variants whose losses are compared, and the training they share."""

    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    config: Name = setting("sparse", "the configuration")
    variants: tuple[str, ...] = setting(
        ("eager:fp32", "eager:bf16"), "backend:precision or backend:precision:graph, each"
    )
    seeds: int = setting(3, "how many, from 0 on", at_least=1)
    steps: int = setting(500, "of each training", at_least=1)
    early: tuple[int, ...] = setting((0, 100), "first step and end of the early ones", at_least=0)
    late: tuple[int, ...] = setting((250, 500), "first step and end of the late ones", at_least=0)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        super().check()
        # Fewer than two different ones, or one of them twice.
        if len(set(self.variants)) < max(2, len(self.variants)):
            raise ConfigError("variants", "must name at least two, none of them twice")
        for name in ("early", "late"):
            span = getattr(self, name)
            if len(span) != 2 or not span[0] < span[1] <= self.steps:
                problem = f"must be a first step and a later end up to {self.steps}"
                raise ConfigError(name, f"{problem}, got {list(span)}")
        if self.steps > (most := named_config(self.config).training.steps):
            raise ConfigError("steps", f"goes beyond the {most} of {self.config}")


@dataclass(frozen=True)
class KernelSettings(_Settings):
    """The kernels that are timed."""

    precision: tuple[Literal["bf16", "tf32", "ieee"], ...] = setting(
        ("bf16", "tf32", "ieee"), "of the kernels' products"
    )


def named_config(name: Name) -> Config:
    """The configuration that `python run.py task=… model=… scale=… recipe=paper` composes for a
    name. Steps are measured, not their number: the recipe does not matter."""
    scale, task, model = _NAMED[name]
    return command_of({"scale": scale, "task": task, "model": model, "recipe": "paper"}).config


def at_full_size(config: Config) -> Config:
    """The configuration with the curriculum at its end from the first step, as in most steps of a
    run. It has enough steps that no measurement reaches the rate's decay."""
    # Dimensions and points without a start have their end from the first step on; loops begin at T.
    loops = GrowthConfig(start=config.loops.b)
    return replace(
        config,
        curriculum=CurriculumConfig(GrowthConfig(), GrowthConfig(), loops),
        training=replace(config.training, steps=500_000),
    )
