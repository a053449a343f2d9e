"""The shape of a block: which kind it is, how it attends, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("gpt2", "llama", "flt")
ATTENTIONS = ("full", "grouped", "latent", "sliding")
_SHARE = 4  # a sliding window sees the last quarter of the length
_MULTIPLE = 8  # that a gated MLP's width is rounded up to


@dataclass(frozen=True)
class BlockSpec:
    """A block of `n_layer` different ones, `n_embd` wide, with `n_head` heads.

    `kind`: gpt2 (LayerNorm, GELU, biases, no rotation), llama (RMSNorm with a gain, SwiGLU, RoPE)
    or flt (that of the Fully Looped Transformer, arXiv 2605.18797: RMSNorm without parameters,
    RoPE and then normed queries and keys, squared ReLU). `attention`: full; grouped, with `n_kv`
    heads of keys and values; latent, with keys and values read from `rank` numbers a token; or
    sliding, where the letters of `pattern` go to the layers in turn: S sees a quarter of `length`,
    the most tokens a stream can have, L (and the last layer, whatever its letter) all of them.
    `std` is that of the initial weights of gpt2 and llama.

    Raises ValueError where these do not fit together.
    """

    n_embd: int
    n_head: int
    n_layer: int = 1
    kind: str = "gpt2"
    attention: str = "full"
    n_kv: int = 0
    rank: int = 0
    pattern: str = ""
    length: int = 0
    std: float = 0.02

    def __post_init__(self) -> None:
        _check_names(self)
        _check_heads(self)
        _check_attention(self)

    @property
    def biased(self) -> bool:
        """Whether its products add a bias."""
        return self.kind == "gpt2"

    @property
    def rotary(self) -> bool:
        """Whether queries and keys are rotated by their positions."""
        return self.kind != "gpt2"

    @property
    def head_size(self) -> int:
        """The width of a head."""
        return self.n_embd // self.n_head

    @property
    def kv_heads(self) -> int:
        """How many heads the keys and values have."""
        return self.n_kv if self.attention == "grouped" else self.n_head

    @property
    def n_hidden(self) -> int:
        """The width of the MLP: 4 n_embd; with a gate 8/3 of it, so that both have as many
        parameters, rounded up to a multiple of 8 (2048 for 768, as in arXiv 2606.18524)."""
        if self.kind != "llama":
            return 4 * self.n_embd
        return -(-8 * self.n_embd // (3 * _MULTIPLE)) * _MULTIPLE

    def window(self, layer: int) -> int | None:
        """How many tokens, itself the last, a token of this layer sees; None: all before it."""
        if self.attention != "sliding" or layer == self.n_layer - 1:
            return None
        short = self.pattern[layer % len(self.pattern)] == "S"
        return self.length // _SHARE if short else None


def _check_names(spec: BlockSpec) -> None:
    for name, value, known in (
        ("kind", spec.kind, KINDS),
        ("attention", spec.attention, ATTENTIONS),
    ):
        if value not in known:
            raise ValueError(
                f"{name} must be {', '.join(known[:-1])} or {known[-1]}, got {value!r}"
            )


def _check_heads(spec: BlockSpec) -> None:
    if min(spec.n_embd, spec.n_head, spec.n_layer) < 1:
        raise ValueError(
            "n_embd, n_head and n_layer must be at least 1, "
            f"got {spec.n_embd}, {spec.n_head} and {spec.n_layer}"
        )
    if spec.n_embd % spec.n_head:
        raise ValueError(
            f"n_embd must be a multiple of n_head, got {spec.n_embd} and {spec.n_head}"
        )
    if spec.rotary and spec.head_size % 2:
        raise ValueError(
            f"a {spec.kind} block rotates pairs of numbers: n_embd / n_head must be even, "
            f"got {spec.n_embd} / {spec.n_head} = {spec.head_size}"
        )


def _check_attention(spec: BlockSpec) -> None:
    if spec.attention == "grouped" and (spec.n_kv < 1 or spec.n_head % spec.n_kv):
        raise ValueError(
            "grouped attention shares each head of keys among as many of queries: n_kv must "
            f"divide n_head, got {spec.n_kv} and {spec.n_head}"
        )
    if spec.attention == "latent" and spec.rank < 1:
        raise ValueError(f"latent attention needs a rank of at least 1, got {spec.rank}")
    if spec.attention != "sliding":
        return
    if not spec.pattern or set(spec.pattern) - {"S", "L"}:
        raise ValueError(
            "sliding attention needs a pattern of the letters S (short) and L (long), "
            f"got {spec.pattern!r}"
        )
    if spec.length < _SHARE:
        raise ValueError(
            f"a sliding window is a quarter of the length, which must be at least {_SHARE}, "
            f"got {spec.length}"
        )
