"""How fast all probes train at once, beside a loop of one module for each, its states given.

    python -m benchmarks.probes --json benchmarks/results/probes.json

At the paper's sizes by default. The loop sums the tokens in each of several ways, from the
reference's on; every way is timed on one layer, the fastest in turns with ours on --layers of them
at a time. All start alike; the first step's gradients are compared, and what is read after it; in
float64 too, as a float32 sum that rounding moves across a ReLU's kink, for one prompt, parts
gradients by some 1e-5.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from reloop.benchmarks.arguments import Parser, at_least
from reloop.benchmarks.common import paired_ratio, write_report
from reloop.benchmarks.timing import Times, measure
from reloop.probing.probes import Probes, ProbeTrainer

_CPU = torch.device("cpu")
_PART = 64  # prompts of a way that takes them in parts
# How a module sums tokens, whether the loop puts them first, and how many prompts it takes at once.
Way = tuple[Callable[[Tensor, Tensor], Tensor], bool, int | None]


def _weighted(states: Tensor, weights: Tensor) -> Tensor:
    return (states * weights[:, None]).sum(1)


def _product(states: Tensor, weights: Tensor) -> Tensor:
    return torch.bmm(weights.expand(len(states), 1, -1), states)[:, 0]


def _tokens_first(states: Tensor, weights: Tensor) -> Tensor:
    return (weights @ states.flatten(1)).view(states.shape[1:])


WAYS: dict[str, Way] = {
    "reference": (_weighted, False, None),
    "product": (_product, False, None),
    "product, in parts": (_product, False, _PART),
    "tokens first": (_tokens_first, True, None),
}


class OneProbe(nn.Module):
    """A probe alone: scores over the first `seen` tokens, and an MLP."""

    def __init__(self, seen: int, width: int, outputs: int, hidden: int, way: Way) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(seen))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        self._sum, self._first, _ = way

    def forward(self, states: Tensor) -> Tensor:
        """What it reads, [B, outputs], in states [B, S, D], or [S, B, D] with tokens first."""
        seen = len(self.scores)
        states = states[:seen] if self._first else states[:, :seen]
        return self.mlp(self._sum(states, self.scores.softmax(0)))


class Loop:
    """One module for each (layer, length), begun like `probes` of one seed, and Adam for all."""

    def __init__(self, probes: Probes, way: Way) -> None:
        layers, _, _, width, hidden = probes.weight_in.shape
        outputs, seen = probes.bias_out.shape[-1], probes.tokens_seen.sum(1).tolist()
        self._first, self._at_once = way[1:]
        self.modules = [
            [OneProbe(count, width, outputs, hidden, way) for count in seen] for _ in range(layers)
        ]
        for layer, row in enumerate(self.modules):
            for length, module in enumerate(row):
                pairs = zip(module.parameters(), tensors(probes, layer, length), strict=True)
                for parameter, tensor in pairs:
                    parameter.data = tensor.clone(memory_format=torch.contiguous_format)
        every = [p for row in self.modules for module in row for p in module.parameters()]
        self._optimizer = Adam(every, lr=1e-3, fused=True)

    def step(self, states: list[Tensor], targets: Tensor) -> None:
        """A step of every probe, one after another."""
        self.accumulate(states, targets)
        self.update()

    def accumulate(self, states: list[Tensor], targets: Tensor) -> None:
        """Everything of a step but the change of parameters."""
        at_once = self._at_once or len(targets)
        for row, of_layer in zip(self.modules, states, strict=True):
            for some, wanted in zip(of_layer.split(at_once), targets.split(at_once), strict=True):
                seen = some.transpose(0, 1).contiguous() if self._first else some
                for length, module in enumerate(row):
                    error = module(seen) - wanted[:, length]
                    (error.square().mean() * (len(some) / len(targets))).backward()

    def update(self) -> None:
        """Adam's step."""
        self._optimizer.step()
        self._optimizer.zero_grad()

    def gradients_apart(self, probes: Probes) -> float:
        """The largest difference between a gradient of these and of ours."""
        return max(
            float((parameter.grad - gradient).abs().max())
            for layer, row in enumerate(self.modules)
            for length, module in enumerate(row)
            for parameter, gradient in zip(
                module.parameters(), tensors(probes, layer, length, gradients=True), strict=True
            )
            if parameter.grad is not None
        )

    @torch.no_grad()
    def predictions_apart(self, probes: Probes, states: list[Tensor]) -> float:
        """The largest difference between what these and ours read in some states."""
        largest = 0.0
        for layer, (row, of_layer) in enumerate(zip(self.modules, states, strict=True)):
            ours = probes.predict(layer, of_layer)[0]
            of_layer = of_layer.transpose(0, 1) if self._first else of_layer
            for length, module in enumerate(row):
                largest = max(largest, float((module(of_layer) - ours[length]).abs().max()))
        return largest


def tensors(
    probes: Probes, layer: int, length: int, *, gradients: bool = False
) -> tuple[Tensor, ...]:
    """Parameters, or gradients, of the first seed's probe, as those of OneProbe."""
    found = [parameter.grad if gradients else parameter for parameter in probes.parameters()]
    own = [tensor.detach()[layer, length, 0] for tensor in found if tensor is not None]
    scores, weight_in, bias_in, weight_out, bias_out = own
    seen = scores[probes.tokens_seen[length]]
    return seen, weight_in.T, bias_in[0], weight_out.T, bias_out[0]


def main(words: list[str]) -> int:
    """Measure, print and write; the exit code."""
    options = _parse(words)
    names = ("layers", "points", "prompts", "width", "outputs", "hidden")
    sizes = {name: getattr(options, name) for name in names}
    print(", ".join(f"{name} {size}" for name, size in sizes.items()))
    content: dict[str, Any] = {"size": sizes, "tokens": {}}
    tokens, pairs = torch.arange(2 * options.points), torch.arange(1, options.points + 1)
    for name, seen in (
        ("all", torch.ones(options.points, 2 * options.points, dtype=torch.bool)),
        ("own pairs", tokens < 2 * pairs[:, None]),
    ):
        content["tokens"][name] = _compare(name, seen, options)
        if options.json:
            write_report(options.json, _CPU, content)
    return 0


def _compare(name: str, seen: Tensor, options: Namespace) -> dict[str, Any]:
    """Every way on one layer, then the fastest and ours in turn on all of them."""
    draws = torch.Generator().manual_seed(0)

    def start(layers: int) -> Probes:
        sizes = (seen, options.width, options.outputs, options.hidden)
        return Probes(layers, 1, *sizes, generator=torch.Generator().manual_seed(1))

    shape = (options.prompts, 2 * options.points, options.width)
    states = [torch.randn(shape, generator=draws) for _ in range(options.layers)]
    targets = torch.randn(options.prompts, options.points, options.outputs, generator=draws)
    exact = start(1).double()
    apart = _first_step(
        Loop(exact, WAYS["reference"]), ProbeTrainer(exact), [states[0].double()], targets.double()
    )
    print(
        f"{name}, one layer in float64: apart by {apart['gradients']:.1e} (gradients) and "
        f"{apart['predictions']:.1e} (predictions)",
        flush=True,
    )
    found: dict[str, Any] = {"float64_apart": apart, "one_layer": {}}
    for way, how in WAYS.items():
        sides = _in_turn(start(1), how, states[:1], targets, options.pairs)
        found["one_layer"][way] = sides
        print(_row(f"{name}, one layer, {way}", sides), flush=True)
    fastest = min(WAYS, key=lambda way: min(found["one_layer"][way]["loop"]["cpu_s"]))
    sides = _in_turn(start(options.layers), WAYS[fastest], states, targets, options.full_pairs)
    print(_row(f"{name}, {options.layers} layers, {fastest}", sides), flush=True)
    return found | {"fastest": fastest, "all_layers": sides}


def _in_turn(
    probes: Probes, way: Way, states: list[Tensor], targets: Tensor, pairs: int
) -> dict[str, Any]:
    """Steps of a loop and of ours: how far apart the first leaves them, and the others' times."""
    loop, ours = Loop(probes, way), ProbeTrainer(probes)
    apart = _first_step(loop, ours, states, targets)
    turns = [
        (
            measure(lambda: loop.step(states, targets), 1, _CPU),
            measure(lambda: ours.step(states, targets), 1, _CPU),
        )
        for _ in range(pairs)
    ]
    theirs, mine = ([turn[side] for turn in turns] for side in (0, 1))
    return {
        "apart": apart,
        "loop": _listed(theirs),
        "ours": _listed(mine),
        "ratio_wall": paired_ratio([t.wall for t in theirs], [t.wall for t in mine])._asdict(),
        "ratio_cpu": paired_ratio([t.cpu for t in theirs], [t.cpu for t in mine])._asdict(),
    }


def _first_step(
    loop: Loop, ours: ProbeTrainer, states: list[Tensor], targets: Tensor
) -> dict[str, float]:
    """A step of both; how far apart its gradients are, and what is read after it."""
    loop.accumulate(states, targets)
    for layer, of_layer in enumerate(states):
        ours.probes.accumulate(layer, of_layer, targets)
    gradients = loop.gradients_apart(ours.probes)
    loop.update()
    ours.update()
    # Adam's first step has its full size even along a gradient that is all rounding.
    some = [of_layer[:_PART] for of_layer in states]
    return {"gradients": gradients, "predictions": loop.predictions_apart(ours.probes, some)}


def _row(what: str, sides: dict[str, Any]) -> str:
    seconds = [statistics.median(sides[side]["cpu_s"]) for side in ("loop", "ours")]
    apart = sides["apart"]
    ratio, wall = sides["ratio_cpu"], sides["ratio_wall"]["middle"]
    return (
        f"{what:42} loop {seconds[0]:7.3f} s, ours {seconds[1]:6.3f} s of processor: "
        f"{ratio['middle']:.3g} ({ratio['low']:.3g} to {ratio['high']:.3g}) times, {wall:.3g} on "
        f"the clock; gradients apart by {apart['gradients']:.1e}, then predictions by "
        f"{apart['predictions']:.1e}"
    )


def _listed(times: list[Times]) -> dict[str, list[float]]:
    return {"wall_s": [turn.wall for turn in times], "cpu_s": [turn.cpu for turn in times]}


def _parse(words: list[str]) -> Namespace:
    parser = Parser(prog="benchmarks.probes", description=__doc__)
    parser.add_argument("--layers", type=at_least(1), default=20)
    parser.add_argument("--points", type=at_least(1), default=41)
    parser.add_argument("--prompts", type=at_least(1), default=1280)
    parser.add_argument("--width", type=at_least(1), default=256)
    parser.add_argument("--outputs", type=at_least(1), default=20)
    parser.add_argument("--hidden", type=at_least(1), default=64)
    parser.add_argument("--pairs", type=at_least(2), default=3, help="of steps on one layer")
    parser.add_argument("--full-pairs", type=at_least(2), default=3, help="of steps on all layers")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything measured")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
