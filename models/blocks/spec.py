"""The shape of a block: its kind, its attention, and the sizes that follow."""

from dataclasses import dataclass

_SHARE = 4  # a sliding window sees the last quarter of the length
_MULTIPLE = 8  # a gated MLP's width is rounded up to it


@dataclass(frozen=True)
class BlockSpec:
    """A block of `n_layer` different ones, `n_embd` wide, with `n_head` heads.

    `kind`: gpt2 (LayerNorm, GELU, biases, no rotation), llama (RMSNorm with a gain, SwiGLU, RoPE),
    flt (of the Fully Looped Transformer, arXiv 2605.18797: RMSNorm without parameters, RoPE and
    then normed queries and keys, squared ReLU), relu2 (of arXiv 2604.21106: as flt, but the norms
    have a gain and no matrix begins as zero) or sandwich (of arXiv 2502.05171: as llama, but the
    stream is normed after each branch too, and queries and keys have biases). `hidden` is the
    MLP's width, 0 that of its kind; `rope_base` is the base of RoPE's frequencies. `attention`:
    full; grouped, with `n_kv` heads of keys and values; latent, with keys and values read from
    `rank` numbers per token; or sliding, where the letters of `pattern` go to the layers in turn: S
    sees a quarter of `length`, the most tokens of a stream, L (and always the last layer) all of
    them. `std` is that of the initial weights of gpt2, llama and sandwich. With `post_norm` the
    stream is normed after each branch is added to it; `gain` multiplies the initial weights of
    values, MLP and outputs. Combinations are checked with the settings (conf/checks/model.py).
    """

    n_embd: int
    n_head: int
    n_layer: int = 1
    kind: str = "gpt2"
    hidden: int = 0
    rope_base: int = 10_000
    attention: str = "full"
    n_kv: int = 0
    rank: int = 0
    pattern: str = ""
    length: int = 0
    std: float = 0.02
    post_norm: bool = False
    gain: float = 1.0

    @property
    def biased(self) -> bool:
        """Says whether its products add a bias."""
        return self.kind == "gpt2"

    @property
    def rotary(self) -> bool:
        """Says whether queries and keys are rotated by their positions."""
        return self.kind != "gpt2"

    @property
    def gated(self) -> bool:
        """Says whether the MLP multiplies its values by a gate."""
        return self.kind in ("llama", "sandwich")

    @property
    def normed_heads(self) -> bool:
        """Says whether queries and keys are normed after their rotation, and the MLP squares a
        ReLU."""
        return self.kind in ("flt", "relu2")

    @property
    def head_size(self) -> int:
        """The width of a head."""
        return self.n_embd // self.n_head

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and of values."""
        return self.n_kv if self.attention == "grouped" else self.n_head

    @property
    def n_hidden(self) -> int:
        """The width of the MLP: `hidden`, or 4 n_embd; with a gate 8/3 of it, for as many
        parameters, rounded up to a multiple of 8 (2048 for 768, as in arXiv 2606.18524)."""
        if self.hidden or not self.gated:
            return self.hidden or 4 * self.n_embd
        # -(-a // b) is a / b rounded up: of (8/3) n_embd / 8 in whole numbers.
        return -(-8 * self.n_embd // (3 * _MULTIPLE)) * _MULTIPLE

    def window(self, layer: int) -> int | None:
        """The number of tokens, itself the last, that a token of this layer sees; None: all."""
        # Whatever its letter, the last layer is long, as in FLT's code (docs/deviations.md).
        if self.attention != "sliding" or layer == self.n_layer - 1:
            return None
        short = self.pattern[layer % len(self.pattern)] == "S"
        return self.length // _SHARE if short else None
