"""Every setting of a run, typed and frozen. Plain dataclasses, without torch.

    Config(task=TaskConfig(name="linear", dims=5, points=11), training=TrainingConfig(steps=100))

The defaults are the reference's (arXiv 2311.12424 and its code); conf/scale/ has the values that
differ by task and scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .mistakes import ConfigError, check_device, check_name, check_path
from .plugins import load_plugins
from .setting import setting

SCHEMA_VERSION = 1
Action = Literal["train", "evaluate", "compare", "import", "plan", "tune"]
ShiftName = Literal[
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
PictureFormat = Literal["png", "pdf", "svg"]
TableFormat = Literal["text", "csv", "markdown", "latex"]
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
    "logistic",
    "ngram_1",
    "ngram_3",
    "ngram_5",
]


@dataclass(frozen=True)
class TaskConfig:
    """Which function class, and the prompts' final size."""

    name: str = setting("sparse_linear", "the function class; chosen by task=")
    dims: int = setting(20, "dimensions of x", at_least=1)
    points: int = setting(
        41, "pairs in a prompt, k + 1: the last one is predicted from k examples", at_least=2
    )
    distinct_prompts: int = setting(
        0, "how many different prompts training draws from; 0: endless", at_least=0
    )
    settings: Mapping[str, Any] = setting({}, "the task's own, see conf/task/")
    distinct_functions: int = setting(
        0,
        "how many different functions training draws from, each with endless prompts; 0: endless",
        at_least=0,
    )

    @property
    def is_text(self) -> bool:
        """Says whether prompts are tokens of a text, not pairs of numbers."""
        return self.name == "language"

    def tokens_of(self, points: int) -> int:
        """The tokens that a model computes of so many points: of a text these; of pairs each x and
        y, without the last y."""
        return points if self.is_text else 2 * points - 1


@dataclass(frozen=True)
class ModelConfig:
    """The transformer's shape."""

    family: Literal["looped", "tied", "standard"] = setting("looped", "chosen by model=")
    n_layer: int = setting(1, "layers in the looped block, or of a standard model", at_least=1)
    n_embd: int = setting(256, "width", at_least=1)
    n_head: int = setting(8, "attention heads", at_least=1)
    n_positions: int = setting(101, "most pairs, or tokens of a text, in a prompt", at_least=1)
    injection: Literal["add", "multiply", "concat", "none", "linear_attention"] = setting(
        "add",
        "how the prompt enters each loop; linear_attention: a loop of linear attention over the "
        "pairs alone, without blocks",
    )
    block: Literal["gpt2", "llama", "flt", "relu2", "sandwich"] = setting("gpt2", "kind of block")
    attention: Literal["full", "grouped", "latent", "sliding"] = setting(
        "full", "kind of attention"
    )
    n_kv: int = setting(
        0, "grouped attention: heads of keys and values", at_least=0, needs="attention=grouped"
    )
    rank: int = setting(
        0,
        "latent attention: numbers a token that keys and values are read from",
        at_least=0,
        needs="attention=latent",
    )
    pattern: str = setting(
        "",
        "sliding attention: the layers' windows in turn, S (a quarter) or L (all)",
        needs="attention=sliding",
    )
    connectivity: Literal["LT", "LT_i", "LT_ai", "FLT", "FLT_res"] | None = setting(
        None,
        "how a loop reads the one before it, by the names of arXiv 2605.18797; null: by injection",
        needs="family=looped",
    )
    norm: Literal["in_loop", "at_readout"] = setting(
        "in_loop", "where the stream is normed", needs="family=looped"
    )
    prelude: int = setting(0, "layers before the loop", at_least=0, needs="family=looped")
    coda: int = setting(0, "layers after the loop", at_least=0, needs="family=looped")
    lanes: int = setting(
        0, "lanes of hyper-connections; 0: none", at_least=0, needs="family=looped"
    )
    tokens: Literal["interleaved", "pairs"] = setting(
        "interleaved",
        "what the two tokens of a pair hold; interleaved: x, then y; pairs: x, then x and y, so "
        "that no y has to be brought to its x",
    )
    block_norm: Literal["pre", "post"] = setting(
        "pre", "what a block norms: what its branches read, or the stream after each is added"
    )
    residual_scaling: Literal["none", "sqrt", "linear", "factored", "deepnorm", "deeploop"] = (
        setting(
            "none",
            "what residual branches are multiplied by: 1, 1/√R, 1/R, λ/(R√U); with "
            "block_norm=post 1/(2RU)^¼ or 1/√(2RU)",
        )
    )
    residual_factor: float = setting(
        1.0, "the λ of residual_scaling=factored", above=0, needs="residual_scaling=factored"
    )
    tied_head: bool = setting(False, "of a text: whether the head is the embedding's matrix")
    softcap: float = setting(
        0.0, "of a text: c limits logits to c · tanh(logit / c); 0: no limit", at_least=0
    )
    n_hidden: int = setting(
        0, "width of the MLP; 0: 4 n_embd, with a gate (llama, sandwich) 8/3 of it", at_least=0
    )
    rope_base: int = setting(10_000, "base of the frequencies of rotary positions", at_least=2)

    def describe(self) -> str:
        """One phrase: family, layers, width, heads and other features."""
        parts = [self.connectivity or self.family, f"{self.n_layer} x {self.n_embd} wide"]
        parts += [f"{self.n_head} heads"]
        parts += ["tokens of pairs"] if self.tokens == "pairs" else []
        parts += [f"{self.block} blocks"] if self.block != "gpt2" else []
        parts += [f"{self.attention} attention"] if self.attention != "full" else []
        parts += ["post-norm"] if self.block_norm == "post" else []
        parts += ["no norm in the loop"] if self.norm == "at_readout" else []
        for name in ("prelude", "coda", "lanes"):
            parts += [f"{name} of {count}"] if (count := getattr(self, name)) else []
        return ", ".join(parts)


@dataclass(frozen=True)
class LoopsConfig:
    """b loops, of which the last T count in the loss (looped models)."""

    b: int = setting(20, "loops", at_least=1)
    T: int = setting(
        15, "how many of the last loops count in the loss; 1: the last, b or more: all", at_least=1
    )
    grad_loops: int | Literal["window", "half", "all"] = setting(
        "window",
        "how many of the last loops gradients reach back through: those that count, half of b, "
        "all, or a number",
    )
    sampling: Literal["none", "uniform", "poisson_lognormal"] = setting(
        "none",
        "loops drawn for each step: uniform from least to 2b - least, or Poisson with a log-normal "
        "mean; none: as curriculum.loops says",
    )
    least: int = setting(
        1, "the fewest loops that sampling=uniform draws", at_least=1, needs="sampling=uniform"
    )
    halt: Literal["act", "ponder"] | None = setting(
        None,
        "training: each prediction halts by a read-out of its state, which is trained: by adaptive "
        "computation time or as PonderNet, over the loops that count in the loss",
    )
    halt_cost: float = setting(
        0.01, "weight of act's loops, or of ponder's distance from its prior", at_least=0
    )
    halt_prior: float = setting(
        0.2,
        "ponder: probability of halting at each loop, of its prior",
        above=0,
        below=1,
        needs="halt=ponder",
    )
    stop_at: float = setting(
        0.0,
        "training: the loops without gradients end early, for the whole batch (each shard), once "
        "the median prompt's state changes over a loop by at most this fraction of its norm; the "
        "others start from the state reached, so that predictions differ by what the loops left "
        "out would still have changed; 0: never",
        at_least=0,
    )


@dataclass(frozen=True)
class GrowthConfig:
    """A number grows to its end: from `start` by `inc`, each value kept for some steps."""

    start: int | None = setting(
        None, "the first value; null: the end from the first step (loops: T)", at_least=1
    )
    inc: int = setting(1, "added each time", at_least=1)
    intervals: tuple[int, ...] = setting(
        (5000,), "steps for which each value is held; the last one repeats", at_least=1
    )


@dataclass(frozen=True)
class CurriculumConfig:
    """The numbers that grow with the step: visible dimensions, pairs in a prompt, loops."""

    dims: GrowthConfig = GrowthConfig()
    points: GrowthConfig = GrowthConfig(inc=2)
    loops: GrowthConfig = GrowthConfig(inc=2, intervals=(500,))


@dataclass(frozen=True)
class TrainingConfig:
    """The optimiser and the loop around it."""

    steps: int = setting(500_000, "updates of the weights; 0: the model as initialised", at_least=0)
    start_from: str = setting(
        "", "a run whose weights training begins with, as shipped/NAME; empty: random ones"
    )
    batch_size: int = setting(64, "prompts in a step", at_least=1)
    optimizer: Literal["adam", "adamw", "muon"] = setting(
        "adamw", "muon: Muon for the matrices of blocks, AdamW for the rest"
    )
    learning_rate: float = setting(1e-4, "Adam's rate", above=0)
    muon_rate: float = setting(0.02, "Muon's rate", above=0, needs="optimizer=muon")
    muon_norm: Literal["free", "kept"] = setting(
        "free",
        "of Muon's matrices; kept: each keeps the Frobenius norm that it began with",
        needs="optimizer=muon",
    )
    embedding_rate: float = setting(
        0.0, "Adam's rate of a text's embedding; 0: learning_rate", at_least=0
    )
    head_rate: float = setting(0.0, "Adam's rate of a text's head; 0: learning_rate", at_least=0)
    beta1: float = setting(0.9, "Adam's β₁", at_least=0, below=1)
    beta2: float = setting(0.999, "Adam's β₂", at_least=0, below=1)
    epsilon: float = setting(1e-8, "Adam's ε", above=0)
    weight_decay: float = setting(0.0, "decoupled from the gradient but for adam", at_least=0)
    decay_by_rate: bool = setting(
        False, "whether weight_decay is the product of decay and peak rate (arXiv 2606.18524)"
    )
    clip: float = setting(0.0, "largest norm of the gradient; 0: no limit", at_least=0)
    warmup: int = setting(0, "steps in which the rate rises to its value", at_least=0)
    decay: float = setting(
        0.0, "last fraction of the steps, in which the rate falls linearly", at_least=0, at_most=1
    )
    decay_to: float = setting(
        0.0, "the fraction of the rate that it falls to", at_least=0, at_most=1
    )
    init_std: float = setting(0.02, "standard deviation of gpt2 and llama weights", above=0)
    position_std: float = setting(0.02, "standard deviation of learned positions", above=0)
    embedding_std: float = setting(0.02, "standard deviation of a text's embedding", above=0)
    head_std: float = setting(0.02, "standard deviation of a text's head", above=0)
    previous_token_head: bool = setting(
        False, "whether a head of the first block attends to the token before at the start, by hand"
    )
    ema_decay: float = setting(
        0.0, "of the moving average of the weights that is evaluated; 0: none", at_least=0, below=1
    )
    jacobian_penalty: float = setting(
        0.0,
        "weight in the loss of the mean of ‖J v‖²/‖v‖² over random v, with J the Jacobian of the "
        "last loop: its state after by its state before; 0: none",
        at_least=0,
    )
    targets: Literal["outputs", "posterior_mean"] = setting(
        "outputs",
        "what predictions are compared with: y, or its posterior mean given the pairs before",
    )
    shards: int = setting(1, "parts a batch is computed in, one after another", at_least=1)
    recompute: bool = setting(
        False,
        "whether the loops' activations are not stored but computed again in the backward pass, "
        "one loop at a time",
    )
    zero_stage: int = setting(
        0,
        "under torchrun; 1: each process keeps the optimiser's state of a share of the weights "
        "alone, and updates these (ZeRO)",
        at_least=0,
        at_most=1,
    )
    embedding_dtype: Literal["float32", "bfloat16"] = setting(
        "float32", "of a text's embedding and its optimiser's state"
    )
    checkpoint_every: int = setting(1000, "steps between checkpoints", at_least=1)
    snapshots: tuple[int, ...] = setting(
        (), "steps after which the run is kept as it is then, in its folder snapshots/", at_least=0
    )
    log_every: int | None = setting(
        None,
        "steps between records of metrics.jsonl; null: a fiftieth of the steps, at most 100",
        at_least=1,
    )
    log_norms: bool = setting(
        False, "also log norms of the residual stream and of the gradients of first block and head"
    )


@dataclass(frozen=True)
class EvaluationConfig:
    """The evaluation of a trained model."""

    prompts: int = setting(1280, "prompts", at_least=2)
    seed: int = setting(2024, "of the prompts", at_least=0)
    batch_size: int = setting(128, "prompts at once", at_least=1)
    loops: int | Literal["auto"] | None = setting(
        None, "loop at which errors by examples are read; null: b; auto: early exit", at_least=1
    )
    halt_on: Literal["prediction", "state"] = setting(
        "state", "early exit: whose change over a loop counts"
    )
    tolerance: float = setting(0.015, "early exit: the largest change that counts as none", above=0)
    max_loops: int | None = setting(
        None, "how far the error by loop goes; null: 3 b, of a text 4 b", at_least=1
    )
    baselines: tuple[Baseline, ...] | None = setting(
        None, "solvers beside the model; null: the task's"
    )
    shifts: tuple[ShiftName, ...] = setting(
        (), "shifted inputs to be measured on too; all: every one"
    )
    resamples: int = setting(1000, "of the bootstrap", at_least=1)
    tokens: int = setting(
        200_000, "of a text: how many of each text are read, from its beginning; 0: all", at_least=0
    )
    halt_by: int | None = setting(
        None, "early exit: the loop at which the rest is read; null: b", at_least=1
    )
    every: int | None = setting(
        None, "training: steps between errors on these prompts in its log; null: none", at_least=1
    )
    normalise: Literal["none", "scale", "whiten"] = setting(
        "none",
        "whether the model reads x and y over the scale of the examples before each query, x also "
        "whitened by them",
    )

    def plain(self) -> dict[str, object]:
        """The settings by which results are found. An earlier version did not normalise."""
        plain = dict(vars(self))
        if self.normalise == "none":
            del plain["normalise"]
        return plain


@dataclass(frozen=True)
class FigureSettings:
    """The files, the width, the title and the labels of every picture."""

    format: tuple[PictureFormat, ...] = setting(
        ("png",), "files of each picture, one or several: png, pdf, svg"
    )
    width: Literal["column", "page"] | None = setting(
        None, "3.25 or 6.75 inches, with smaller letters; null: as wide as a screen shows well"
    )
    title: bool = setting(True, "whether pictures have a title; remarks on a run are always shown")
    y_scale: Literal["log", "linear"] = setting(
        "log", "of errors and other sizes; linear is from 0, as in the papers"
    )
    labels: tuple[str, ...] = setting(
        (), "new names in legends, as [least squares: OLS]; in quotes where one has a comma"
    )

    def __post_init__(self) -> None:
        for old, new in self.new_names.items():
            if not (old and new):
                raise ConfigError("figures.labels", f"must be OLD: NEW, got {old + new!r}")

    @property
    def new_names(self) -> dict[str, str]:
        """The new names of curves by the old ones, of which `published: Lasso` has a colon too."""
        # At the last colon: the old name may have one, too.
        parts = [label.rpartition(": ") for label in self.labels]
        return {old.strip(): new.strip() for old, _, new in parts}

    def plain(self) -> dict[str, object]:
        """The settings as JSON has them, to recognise pictures that were drawn with them. An
        earlier version knew neither scales nor labels."""
        plain: dict[str, object] = {
            "format": list(self.format),
            "width": self.width,
            "title": self.title,
        }
        if self.y_scale != "log":
            plain["y_scale"] = self.y_scale
        if self.labels:
            plain["labels"] = list(self.labels)
        return plain


@dataclass(frozen=True)
class TableSettings:
    """The format of printed tables."""

    format: TableFormat = setting(
        "text", "of printed tables; what stands around them is a comment in csv and latex"
    )


@dataclass(frozen=True)
class Config:
    """Every setting of a run, in groups; docs/reference.md says what each means.

    Its defaults are the paper's, 500,000 steps: `Config.of` composes those of a scale.

    Examples
    --------
    >>> from looplab import Config
    >>> Config.of("task=linear").training.steps, Config().training.steps
    (2000, 500000)
    """

    task: TaskConfig = TaskConfig()
    model: ModelConfig = ModelConfig()
    loops: LoopsConfig = LoopsConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()
    seed: int = setting(0, "of the weights, the prompts and their order", at_least=0)
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    precision: Literal["auto", "fp32", "tf32", "bf16", "mixed"] = setting(
        "auto",
        "of matrix products; mixed: bf16 in the loops without gradients, fp32 elsewhere; auto: "
        "tf32 on CUDA, else fp32; evaluation is always in fp32",
    )
    backend: Literal["auto", "eager", "cpu", "compile", "triton"] = setting(
        "auto", "which code computes the loops"
    )
    wandb: Literal["disabled", "offline", "online"] = setting(
        "disabled", "whether metrics go to Weights & Biases too"
    )
    tensorboard: bool = setting(
        False, "whether metrics go to the run's folder tensorboard/ too, for TensorBoard"
    )
    plugins: tuple[str, ...] = setting(
        (), "Python files that register tasks, baselines, loops or shifts of your own"
    )
    folder: str = setting("runs", "where run folders are made", check=check_path)
    name: str = setting(
        "",
        "a name of your own, in front of those of run folders: it finds them again",
        check=check_name,
    )
    scale: str = setting("", "the scale it was composed at, if any")
    recipe: str = setting("", "the recipe it was composed with, if any")

    def __post_init__(self) -> None:
        # A Config made in Python is to name a plugin's task as one from words does.
        load_plugins(self.plugins)

    def __setstate__(self, state: dict[str, Any]) -> None:  # in another process
        self.__dict__.update(state)
        load_plugins(self.plugins)

    @classmethod
    def of(cls, *words: str, **settings: object) -> Config:
        """Compose the run that `python run.py` would train.

        Parameters
        ----------
        *words : str
            As those of the command line: `key=value`.
        **settings
            None: each is a mistake, as dotted keys cannot be written so.

        Raises
        ------
        ConfigError
            For any mistake; it names the key.

        Examples
        --------
        >>> from looplab import Config
        >>> Config.of("task=linear", "seed=1").task.dims
        5
        """
        from .compose import commands

        for key, value in settings.items():
            raise ConfigError(key, f"is given as a word: Config.of('{key}={value}')")
        (command,) = commands(list(words))
        if command.action != "train":
            raise ConfigError("action", f"must be train for a configuration, got {command.action}")
        return command.config
