"""How one launch of the persistent loop divides prompts over CTAs (thread blocks), and what a CTA
holds. Features are the rows (M) of its products, tokens their columns (N).

plan = Plan(length=81)                       # 41 points: two CTAs a prompt, 48 columns each
plan.why_not(), plan.shared_memory(), plan.registers(), plan.sent()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

TILE = 64  # rows of a wgmma, and features of q, k and v that are computed together
STEP = 16  # inner size of a wgmma and of an mma.sync in bf16
GROUP = 8  # a wgmma's N is a multiple of it; CTAs take a prompt's tokens in turn, in such groups
KEY_BLOCK = 64  # keys of one step of the online softmax
HIDDEN_CHUNK = 128  # hidden units between expand and contract: a tile of each warpgroup
SHARED_LIMIT = 227 * 1024  # bytes a block may have at capability 9.0 (CUDA guide)
WEIGHT_STAGE = 2 * TILE * 128  # bytes of a weight tile in flight, 64 x 128
MOST_STAGES = 4

_BARRIERS = 1024  # bytes kept for mbarriers, and for the alignment of tiles
_WARPGROUPS = 2  # that multiply; one more warpgroup loads weights
_MOST_COLUMNS = 256  # wgmma's largest N
_HEAD_SIZES = (16, 32, 64)
# 65,536 less 24 for each thread of the loading warpgroup, over 256, in steps of 8 (setmaxnreg).
REGISTER_LIMIT = 240
_OTHER_REGISTERS = 48  # descriptors, addresses, statistics: an allowance, not a count


class Product(NamedTuple):
    """One product of a layer in a CTA: [rows, inner] weights by [inner, columns] activations."""

    name: str
    rows: int
    inner: int

    @property
    def instructions(self) -> int:
        """The number of wgmma instructions."""
        return -(-self.rows // TILE) * (self.inner // STEP)


@dataclass(frozen=True)
class Plan:
    """The division of prompts of `length` tokens: `features` CTAs divide the heads, the hidden
    units and the features of the stream, `tokens` CTAs divide the tokens; these `features` x
    `tokens` CTAs hold `prompts` prompts."""

    length: int
    width: int = 256
    heads: int = 8
    features: int = 1
    tokens: int = 2
    prompts: int = 1

    @property
    def ctas(self) -> int:
        """CTAs that work on the same prompts."""
        return self.features * self.tokens

    @property
    def own(self) -> int:
        """Tokens of one prompt in a CTA, with padding."""
        return GROUP * -(-self.length // (GROUP * self.tokens))

    @property
    def columns(self) -> int:
        """Tokens in a CTA: the N of its products."""
        return self.own * self.prompts

    @property
    def keys(self) -> int:
        """Keys of one prompt with padding: whole steps of the product of weights and values."""
        return STEP * -(-self.length // STEP)

    @property
    def own_features(self) -> int:
        """Features of the stream that a CTA updates."""
        return self.width // self.features

    def products(self) -> tuple[Product, ...]:
        """The products of a layer. Where features are divided, contract sums over a CTA's hidden
        units alone, for all features."""
        own = self.own_features
        return (
            Product("qkv", 3 * own, self.width),
            Product("projection", own, self.width),
            Product("expand", 4 * own, self.width),
            Product("contract", self.width, 4 * own),
        )

    def attended(self) -> int:
        """Pairs of a query and a key that the busiest CTA computes in a layer, over its heads: 16
        queries at a time, up to the last of their keys, rounded up to 16."""
        group_of_tile = range(1, self.own // GROUP + 1, 2)  # the later of a tile's two groups
        last_groups = [min(group, self.own // GROUP - 1) for group in group_of_tile]
        ends = [GROUP * ((group + 1) * self.tokens) for group in last_groups]
        keys = sum(min(self.keys, STEP * -(-end // STEP)) for end in ends)
        return keys * STEP * self.heads // self.features * self.prompts

    def shared_memory(self) -> dict[str, int]:
        """Bytes of shared memory by content, with as many weight stages as fit (at least two).
        Two chunks of hidden units lie where q, k, v were, the norms' statistics where the mixed
        heads are at other times."""
        heads = 2 * TILE * (self.columns + 2 * self.keys * self.prompts)
        used = {
            "normed stream, all features, bf16": 2 * self.width * self.columns,
            "mixed heads, all features, bf16": 2 * self.width * self.columns,
            "q, k, v of 64 features; later hidden units": max(
                heads, 2 * 2 * HIDDEN_CHUNK * self.columns
            ),
            "barriers": _BARRIERS,
        }
        if self.features > 1:
            used["partial sums received, fp32"] = self.sent()["partial sums"]
        stages = (SHARED_LIMIT - sum(used.values())) // WEIGHT_STAGE
        stages = min(MOST_STAGES, max(2, stages))
        return {**used, f"{stages} weight tiles in flight": stages * WEIGHT_STAGE}

    def registers(self) -> dict[str, int]:
        """Registers of a thread that multiplies. The stream stays in accumulators: contract adds to
        it there, and where features are divided it is among the partial sums. Beside it is a tile
        of qkv or expand, or a warp's attention of 16 queries: scores in fp32, weights in bf16 and
        the head's sums in fp32."""
        tiles = -(-self.width // (TILE * _WARPGROUPS))
        per_tile = TILE * self.columns // 128
        attention = (KEY_BLOCK + KEY_BLOCK // 2 + self.width // self.heads) * STEP // 32
        return {
            "stream and sums of contract, fp32": tiles * per_tile,
            "a tile of a product, or attention": max(per_tile, attention),
            "all else": _OTHER_REGISTERS,
        }

    def sent(self) -> dict[str, int]:
        """Bytes that a CTA writes into the shared memory of others, a layer of a loop."""
        share, others = self.own_features * self.columns, self.features - 1
        sent = {}
        if others:
            sent["normed stream, twice"] = 2 * others * 2 * share
            sent["mixed heads"] = others * 2 * share
            sent["partial sums"] = others * 4 * share
            sent["statistics"] = 3 * others * 8 * self.columns
        if self.tokens > 1:
            sent["keys and values"] = (self.tokens - 1) * 2 * 2 * share
        return sent

    def barriers(self) -> int:
        """Waits for other CTAs in a layer: two for each 64 features of keys and values; where
        features are divided, one for each of three norms, two normed streams, the mixed heads and
        the partial sums."""
        keys_and_values = 2 * self.own_features // TILE if self.tokens > 1 else 0
        return keys_and_values + (7 if self.features > 1 else 0)

    def why_not(self) -> str | None:
        """Why the kernel would not take this shape, or None."""
        if self.width % (TILE * self.features):
            return f"the width must be a multiple of {TILE * self.features}, got {self.width}"
        if self.width % self.heads or self.width // self.heads not in _HEAD_SIZES:
            sizes = ", ".join(map(str, _HEAD_SIZES))
            return f"heads must be {sizes} wide, got {self.width} / {self.heads}"
        if self.columns > _MOST_COLUMNS:
            return f"a CTA has at most {_MOST_COLUMNS} columns, got {self.columns}"
        if (registers := sum(self.registers().values())) > REGISTER_LIMIT:
            return f"{registers} registers a thread, of {REGISTER_LIMIT}"
        if (used := sum(self.shared_memory().values())) > SHARED_LIMIT:
            return f"{used:,} bytes of shared memory, of {SHARED_LIMIT:,}"
        return None
