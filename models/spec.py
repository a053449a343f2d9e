"""The shape of a model."""

from dataclasses import dataclass

from looplab.conf.checks.model import check_model
from looplab.conf.mistakes import ConfigError, check_count
from looplab.conf.schema import ModelConfig

from .blocks.parameters import padded_vocabulary
from .blocks.spec import BlockSpec


@dataclass(frozen=True, kw_only=True)
class ModelSpec(ModelConfig):
    """The shape of a model: its settings (conf/schema.py) and values from a run's other settings.
    Inputs have `dims` dimensions, `classes` = 0 means regression; `vocabulary` > 0 means a text of
    as many tokens, with neither; `loops` is the number of loops in training (the R of residual
    scaling, and the number of lane weights); `std` and `position_std` are those of the initial
    weights of blocks and learned positions, `embedding_std` and `head_std` of a text's embedding
    and head; `previous_token_head` says whether initial weights have one (previous_token.py);
    `halts` says whether the read-out has one number more a prediction, the logit of halting after
    this loop.

    Raises ConfigError, a ValueError, for an impossible shape."""

    dims: int
    classes: int = 0
    vocabulary: int = 0
    loops: int = 1
    std: float = 0.02
    position_std: float = 0.02
    embedding_std: float = 0.02
    head_std: float = 0.02
    previous_token_head: bool = False
    halts: bool = False

    def __post_init__(self) -> None:
        check_model(self)
        if self.injection == "linear_attention" and self.classes:
            raise ConfigError(
                "model.injection", "cannot be linear_attention for a task with classes"
            )
        if self.halts and (self.classes or self.vocabulary or self.injection == "linear_attention"):
            raise ConfigError(
                "loops.halt", "is for numbers alone: no text, classes, linear attention"
            )
        for name, least in (("dims", 1), ("classes", 0), ("vocabulary", 0), ("loops", 1)):
            check_count(name, getattr(self, name), least)

    def block_spec(self) -> BlockSpec:
        """The shape of the looped stack's blocks."""
        return BlockSpec(
            self.n_embd,
            self.n_head,
            self.n_layer,
            kind=self.block,
            hidden=self.n_hidden,
            rope_base=self.rope_base,
            attention=self.attention,
            n_kv=self.n_kv,
            rank=self.rank,
            pattern=self.pattern,
            # Two tokens a pair, and the row that Yang's table has beyond them (docs/deviations.md).
            length=self.n_positions if self.vocabulary else 2 * self.n_positions + 1,
            std=self.std,
            post_norm=self.block_norm == "post",
            gain=self._gain(),
        )

    def _gain(self) -> float:
        """β, with n layers in all loops together: (8n)^-¼ (deepnorm) or (8n)^-½ (deeploop)."""
        n = self.n_layer * (1 if self.family == "standard" else self.loops)
        power = {"deepnorm": -0.25, "deeploop": -0.5}.get(self.residual_scaling, 0.0)
        return float((8 * n) ** power)

    @property
    def rows(self) -> int:
        """The rows of a text's embedding and head: its vocabulary, rounded up."""
        return padded_vocabulary(self.vocabulary)
