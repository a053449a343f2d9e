"""Every setting of a run, typed and frozen. Plain dataclasses: no torch and no Hydra here.

    Config(task=TaskConfig(name="linear", dims=5, points=11), training=TrainingConfig(steps=100))

The defaults are the reference's (arXiv 2311.12424 and its code); conf/scale/ holds what differs by
task and scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .mistakes import ConfigError

SCHEMA_VERSION = 1
Action = Literal["train", "evaluate", "compare", "import"]
Shift = Literal[
    "all",
    "skewed_covariance",
    "half_subspace",
    "noise",
    "orthogonal_query",
    "repeated_query",
    "random_orthants",
    "opposite_orthants",
    "scaled_x_0.333",
    "scaled_x_0.5",
    "scaled_x_2",
    "scaled_x_3",
    "scaled_w_0.333",
    "scaled_w_0.5",
    "scaled_w_2",
    "scaled_w_3",
]
Baseline = Literal[
    "bayes",
    "least_squares",
    "ridge",
    "averaging",
    "nearest_neighbours",
    "lasso",
    "greedy_tree_2",
    "greedy_tree_4",
    "greedy_tree_2_signs",
    "greedy_tree_4_signs",
    "boosted_trees",
    "boosted_trees_signs",
    "network",
    "majority",
]


@dataclass(frozen=True)
class TaskConfig:
    """Which function class, and the prompts' final size."""

    name: str = "sparse_linear"
    dims: int = 20
    points: int = 41  # pairs in a prompt, k + 1: the last one is asked with k examples
    distinct_prompts: int = 0  # how many prompts there are in the world; 0: endless
    settings: Mapping[str, Any] = field(default_factory=dict)  # the task's own, see conf/task/


@dataclass(frozen=True)
class ModelConfig:
    """The transformer's shape."""

    family: Literal["looped", "tied", "standard"] = "looped"
    n_layer: int = 1
    n_embd: int = 256
    n_head: int = 8
    n_positions: int = 101  # most pairs that fit in a prompt
    injection: Literal["add", "multiply", "concat", "none"] = "add"
    block: Literal["gpt2", "llama", "flt"] = "gpt2"
    attention: Literal["full", "grouped", "latent", "sliding"] = "full"
    n_kv: int = 0  # grouped: heads of keys and values
    rank: int = 0  # latent: numbers a token that keys and values are read from
    pattern: str = ""  # sliding: the layers' windows in turn, S (a quarter) or L (all)
    # How a loop reads the one before it, by the fully looped paper's names; none: by injection.
    connectivity: Literal["LT", "LT_i", "LT_ai", "FLT", "FLT_res"] | None = None
    norm: Literal["in_loop", "at_readout"] = "in_loop"  # where the stream is normed
    prelude: int = 0  # layers before the loop
    coda: int = 0  # layers after it
    lanes: int = 0  # of hyper-connections; 0: none
    residual_scaling: Literal["none", "sqrt", "linear", "factored"] = "none"
    residual_factor: float = 1.0  # factored: λ of λ / (R √U)


@dataclass(frozen=True)
class LoopsConfig:
    """b loops, of which the last T count in the loss (looped models)."""

    b: int = 20
    T: int = 15  # 1: the last loop alone; as many as are made, or more: all
    # How many of the last loops gradients reach back through: those that count, half of b, all.
    grad_loops: int | Literal["window", "half", "all"] = "window"
    # Drawn anew for each step, around b: uniform from 1 to 2 b - 1, or Poisson with a log-normal
    # mean; none: as curriculum.loops says.
    sampling: Literal["none", "uniform", "poisson_lognormal"] = "none"


@dataclass(frozen=True)
class GrowthConfig:
    """How a number grows to its end: from `start` by `inc`, each value held for some steps.

    Without `start` it stands at its end from the first step (loops: it starts at T). The last of
    `intervals` repeats.
    """

    start: int | None = None
    inc: int = 1
    intervals: tuple[int, ...] = (5000,)


@dataclass(frozen=True)
class CurriculumConfig:
    """What grows with the step: visible dimensions, pairs in a prompt, loops."""

    dims: GrowthConfig = GrowthConfig()
    points: GrowthConfig = GrowthConfig(inc=2)
    loops: GrowthConfig = GrowthConfig(inc=2, intervals=(500,))


@dataclass(frozen=True)
class TrainingConfig:
    """The optimiser and the loop around it."""

    steps: int = 500_000
    batch_size: int = 64
    # muon: Muon for the matrices of blocks, AdamW for the rest.
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    learning_rate: float = 1e-4
    muon_rate: float = 0.02  # of the matrices
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0  # decoupled from the gradient but for adam
    clip: float = 0.0  # largest norm of the gradient; 0: no limit
    warmup: int = 0  # steps over which the rate rises to learning_rate
    decay: float = 0.0  # last fraction of the steps, over which it falls linearly
    decay_to: float = 0.0  # the fraction of learning_rate that it falls to
    init_std: float = 0.02  # of the initial weights of gpt2 and llama blocks
    position_std: float = 0.02  # of initial learned positions
    ema_decay: float = 0.0  # of the moving average of the weights that is evaluated; 0: no average
    # What predictions are compared with: a prompt's outputs, or each one's posterior mean given the
    # pairs before it, where the task knows it.
    targets: Literal["outputs", "posterior_mean"] = "outputs"
    shards: int = 1  # parts that a batch is drawn and computed in, one after another
    checkpoint_every: int = 1000
    log_every: int = 100
    on_divergence: Literal["stop", "rollback"] = "stop"


@dataclass(frozen=True)
class EvaluationConfig:
    """How a trained model is measured."""

    prompts: int = 1280
    seed: int = 2024
    batch_size: int = 128
    # Loop at which errors by examples are read beside b (none: b); auto: each where it has settled.
    loops: int | Literal["auto"] | None = None
    halt_on: Literal["prediction", "state"] = "state"  # auto: whose change over a loop counts
    tolerance: float = 0.015  # auto: a change of at most this is settled
    max_loops: int | None = None  # how far the error by loop goes; none: 3 b
    baselines: tuple[Baseline, ...] | None = None  # solvers beside the model; none: the task's
    shifts: tuple[Shift, ...] = ()  # shifted inputs that it is measured on too
    resamples: int = 1000  # of the bootstrap
    halt_by: int | None = None  # auto: the loop at which what has not settled is read; none: b


@dataclass(frozen=True)
class Config:
    """A whole run."""

    task: TaskConfig = TaskConfig()
    model: ModelConfig = ModelConfig()
    loops: LoopsConfig = LoopsConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: int = 0
    device: str = "auto"
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    backend: Literal["auto", "eager", "compile", "triton"] = "auto"  # what makes the loops
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    folder: str = "runs"
    scale: str = ""  # the name of the scale it was composed at, if any
    recipe: str = ""  # the name of the recipe it was composed with, if any

    @classmethod
    def of(cls, *words: str) -> Config:
        """What `python run.py` would train with these words: `Config.of("task=linear", "seed=1")`.

        Raises ConfigError, naming the key, for any mistake.
        """
        from .compose import commands

        (command,) = commands(list(words))
        if command.action != "train":
            raise ConfigError("action", f"must be train for a configuration, got {command.action}")
        return command.config
