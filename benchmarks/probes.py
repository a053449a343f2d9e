"""The speed of training all probes at once, beside a loop of one module each, on given states.

    python -m benchmarks.probes json=benchmarks/results/probes.json

At the paper's sizes by default. The loop sums the tokens in one of several ways, the reference's
among them; every way is timed on one layer, the fastest in turn with ours on all layers. All
start from the same weights; the gradients of the first step and the predictions after it are
compared, in float64 too: in float32, rounding across a ReLU's kink for one prompt changes gradients
by some 1e-5.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import statistics
import sys
from collections.abc import Callable
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Adam

from reloop.benchmarks.common import (
    Ratios,
    Seconds,
    ratios_of,
    run_benchmark,
    seconds_of,
    write_report,
)
from reloop.benchmarks.settings import ProbeSettings
from reloop.benchmarks.timing import measure
from reloop.probing.probes import Probes, ProbeTrainer

_CPU = torch.device("cpu")
_PART = 64  # prompts at once of a way that takes them in parts
# How a module sums tokens, whether they are the first axis, and how many prompts it takes at once.
Way = tuple[Callable[[Tensor, Tensor], Tensor], bool, int | None]


class Differences(TypedDict):
    """The largest differences of a step: of gradients, and of the predictions after it."""

    gradients: float
    predictions: float


class Sides(Ratios):
    """The differences at the first step, and the times of a loop and of ours."""

    apart: Differences
    loop: Seconds
    ours: Seconds


class Compared(TypedDict):
    """Every way on one layer, and the fastest on all layers."""

    float64_apart: Differences
    one_layer: dict[str, Sides]
    fastest: str
    all_layers: Sides


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
    """A single probe: scores over the first `tokens` tokens, and an MLP."""

    def __init__(self, tokens: int, width: int, outputs: int, hidden: int, way: Way) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(tokens))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        self._sum, self._tokens_first, _ = way

    def forward(self, states: Tensor) -> Tensor:
        """Predictions [B, outputs] from states [B, S, D], or [S, B, D] with tokens first."""
        count = len(self.scores)
        states = states[:count] if self._tokens_first else states[:, :count]
        return self.mlp(self._sum(states, self.scores.softmax(0)))


class Loop:
    """One module for each (layer, length), initialised as `probes` of one seed, and one Adam."""

    def __init__(self, probes: Probes, way: Way) -> None:
        layers, _, _, width, hidden = probes.weight_in.shape
        outputs, token_counts = probes.bias_out.shape[-1], probes.tokens_seen.sum(1).tolist()
        self._tokens_first, self._chunk_size = way[1:]
        self.modules = [
            [OneProbe(count, width, outputs, hidden, way) for count in token_counts]
            for _ in range(layers)
        ]
        for layer, row in enumerate(self.modules):
            for length, module in enumerate(row):
                pairs = zip(module.parameters(), tensors(probes, layer, length), strict=True)
                for parameter, tensor in pairs:
                    parameter.data = tensor.clone(memory_format=torch.contiguous_format)
        parameters = [p for row in self.modules for module in row for p in module.parameters()]
        self._optimizer = Adam(parameters, lr=1e-3, fused=True)

    def step(self, states: list[Tensor], targets: Tensor) -> None:
        """A step of every probe, one after another."""
        self.accumulate(states, targets)
        self.update()

    def accumulate(self, states: list[Tensor], targets: Tensor) -> None:
        """A step up to the update of the parameters."""
        chunk_size = self._chunk_size or len(targets)
        for row, layer_states in zip(self.modules, states, strict=True):
            for chunk, target_chunk in zip(
                layer_states.split(chunk_size), targets.split(chunk_size), strict=True
            ):
                inputs = chunk.transpose(0, 1).contiguous() if self._tokens_first else chunk
                for length, module in enumerate(row):
                    error = module(inputs) - target_chunk[:, length]
                    (error.square().mean() * (len(chunk) / len(targets))).backward()

    def update(self) -> None:
        """Adam's step."""
        self._optimizer.step()
        self._optimizer.zero_grad()

    def gradient_difference(self, probes: Probes) -> float:
        """The largest difference between gradients of these modules and of ours."""
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
    def prediction_difference(self, probes: Probes, states: list[Tensor]) -> float:
        """The largest difference between predictions of these modules and of ours."""
        largest = 0.0
        for layer, (row, layer_states) in enumerate(zip(self.modules, states, strict=True)):
            ours = probes.predict(layer, layer_states)[0]
            layer_states = layer_states.transpose(0, 1) if self._tokens_first else layer_states
            for length, module in enumerate(row):
                largest = max(largest, float((module(layer_states) - ours[length]).abs().max()))
        return largest


def tensors(
    probes: Probes, layer: int, length: int, *, gradients: bool = False
) -> tuple[Tensor, ...]:
    """Parameters, or gradients, of the first seed's probe, in the form of OneProbe's."""
    all_tensors = [parameter.grad if gradients else parameter for parameter in probes.parameters()]
    probe_tensors = [
        tensor.detach()[layer, length, 0] for tensor in all_tensors if tensor is not None
    ]
    scores, weight_in, bias_in, weight_out, bias_out = probe_tensors
    seen_scores = scores[probes.tokens_seen[length]]
    return seen_scores, weight_in.T, bias_in[0], weight_out.T, bias_out[0]


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("probes", ProbeSettings, words, __doc__, _run)


def _run(settings: ProbeSettings) -> None:
    """Measure, print and write."""
    names = ("layers", "points", "prompts", "width", "outputs", "hidden")
    sizes = {name: getattr(settings, name) for name in names}
    print(", ".join(f"{name} {size}" for name, size in sizes.items()))
    compared: dict[str, Compared] = {}
    tokens, pairs = torch.arange(2 * settings.points), torch.arange(1, settings.points + 1)
    for name, tokens_seen in (
        ("all", torch.ones(settings.points, 2 * settings.points, dtype=torch.bool)),
        ("own pairs", tokens < 2 * pairs[:, None]),
    ):
        compared[name] = _compare(name, tokens_seen, settings)
        write_report(settings.json, _CPU, {"size": sizes, "tokens": compared})


def _compare(name: str, tokens_seen: Tensor, settings: ProbeSettings) -> Compared:
    """Every way on one layer, then the fastest and ours in turn on all layers."""
    draws = torch.Generator().manual_seed(0)

    def new_probes(layers: int) -> Probes:
        sizes = (tokens_seen, settings.width, settings.outputs, settings.hidden)
        return Probes(layers, 1, *sizes, generator=torch.Generator().manual_seed(1))

    shape = (settings.prompts, 2 * settings.points, settings.width)
    states = [torch.randn(shape, generator=draws) for _ in range(settings.layers)]
    targets = torch.randn(settings.prompts, settings.points, settings.outputs, generator=draws)
    double_probes = new_probes(1).double()
    differences = _first_step(
        Loop(double_probes, WAYS["reference"]),
        ProbeTrainer(double_probes),
        [states[0].double()],
        targets.double(),
    )
    print(
        f"{name}, one layer in float64: apart by {differences['gradients']:.1e} (gradients) and "
        f"{differences['predictions']:.1e} (predictions)",
        flush=True,
    )
    one_layer: dict[str, Sides] = {}
    for label, way in WAYS.items():
        sides = _in_turn(new_probes(1), way, states[:1], targets, settings.pairs)
        one_layer[label] = sides
        print(_row(f"{name}, one layer, {label}", sides), flush=True)
    fastest = min(WAYS, key=lambda label: min(one_layer[label]["loop"]["cpu_s"]))
    sides = _in_turn(
        new_probes(settings.layers), WAYS[fastest], states, targets, settings.full_pairs
    )
    print(_row(f"{name}, {settings.layers} layers, {fastest}", sides), flush=True)
    return {
        "float64_apart": differences,
        "one_layer": one_layer,
        "fastest": fastest,
        "all_layers": sides,
    }


def _in_turn(probes: Probes, way: Way, states: list[Tensor], targets: Tensor, pairs: int) -> Sides:
    """Steps of a loop and of ours: their differences at the first one, the times of the others."""
    loop, ours = Loop(probes, way), ProbeTrainer(probes)
    differences = _first_step(loop, ours, states, targets)
    turns = [
        (
            measure(lambda: loop.step(states, targets), 1, _CPU),
            measure(lambda: ours.step(states, targets), 1, _CPU),
        )
        for _ in range(pairs)
    ]
    loop_times, our_times = ([turn[side] for turn in turns] for side in (0, 1))
    return {
        "apart": differences,
        "loop": seconds_of(loop_times),
        "ours": seconds_of(our_times),
        **ratios_of(loop_times, our_times),
    }


def _first_step(
    loop: Loop, ours: ProbeTrainer, states: list[Tensor], targets: Tensor
) -> Differences:
    """A step of both, and their differences."""
    loop.accumulate(states, targets)
    for layer, layer_states in enumerate(states):
        ours.probes.accumulate(layer, layer_states, targets)
    gradients = loop.gradient_difference(ours.probes)
    loop.update()
    ours.update()
    # Adam's first step has full size even if the gradient is only rounding.
    first_prompts = [layer_states[:_PART] for layer_states in states]
    return {
        "gradients": gradients,
        "predictions": loop.prediction_difference(ours.probes, first_prompts),
    }


def _row(label: str, sides: Sides) -> str:
    seconds = [statistics.median(side["cpu_s"]) for side in (sides["loop"], sides["ours"])]
    differences = sides["apart"]
    ratio, wall = sides["ratio_cpu"], sides["ratio_wall"]["middle"]
    return (
        f"{label:42} loop {seconds[0]:7.3f} s, ours {seconds[1]:6.3f} s of processor: "
        f"{ratio['middle']:.3g} ({ratio['low']:.3g} to {ratio['high']:.3g}) times, {wall:.3g} on "
        f"the clock; gradients apart by {differences['gradients']:.1e}, then predictions by "
        f"{differences['predictions']:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
