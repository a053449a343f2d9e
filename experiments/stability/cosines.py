"""Cosines between the increments of a new transformer's loops, and of an equally deep stack without
shared weights, without residual scaling (arXiv 2606.18524, Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from reloop.evaluation.figures import save, whole_numbers
from reloop.probing.dynamics.trajectory import cosines
from reloop.training.progress import Progress

from .near_init import SHARED, Stack, token_model
from .settings import INITS, Init, StabilitySettings
from .tables import Description, Floats, OverSeeds, description, over_seeds

LOOPS = 16  # our choice: the paper does not give it
LAYERS = 12  # the paper's


class Cosines(Description):
    """`cosine`: for each sharing the matrix [loops, loops], averaged over tokens; `apart`: its mean
    over pairs of different increments."""

    cosine: dict[str, OverSeeds[list[list[float]]]]
    apart: dict[str, OverSeeds[float]]


def measure(settings: StabilitySettings) -> Cosines:
    """The cosines of all seeds."""
    init = INITS[settings.init_name]._replace(layers=LAYERS)
    seeds = settings.all_seeds
    result: Cosines = {
        **description(settings, init),
        "loops": list(range(1, LOOPS + 1)),
        "cosine": {},
        "apart": {},
    }
    off_diagonal = ~np.eye(LOOPS, dtype=bool)
    with Progress(2 * len(seeds), "cosines", "seed") as progress:
        for sharing, shared in SHARED.items():
            matrices = []
            for seed in seeds:
                matrices.append(increment_cosines(init, Stack(LOOPS, shared, "none"), seed))
                progress.update()
            result["cosine"][sharing] = over_seeds(np.stack(matrices))
            result["apart"][sharing] = over_seeds(np.stack(matrices)[:, off_diagonal].mean(1))
    return result


@torch.no_grad()
def increment_cosines(init: Init, stack: Stack, seed: int) -> Floats:
    """The cosines between the increments of the stream, averaged over tokens, [loops, loops]."""
    model, tokens = token_model(init, stack, seed)
    increments = torch.stack([stream.double() for stream in model.streams(tokens)]).diff(dim=0)
    units = increments / torch.linalg.vector_norm(increments, dim=-1, keepdim=True)
    return cosines(units)[0].numpy()


def report(result: Cosines) -> str:
    """The mean over pairs of different increments."""
    lines = [
        f"cosine of two different increments of {len(result['loops'])} loops, mean over tokens and "
        f"pairs, {result['what']}, {result['seeds']} seeds, ± standard error"
    ]
    for sharing, curve in result["apart"].items():
        lines.append(f"  {sharing}: {curve['mean']:.3f} ± {curve['standard_error']:.3f}")
    return "\n".join(lines)


def heat_map(
    axes: Axes, cosine: Sequence[Sequence[float | None]], loops: Sequence[int]
) -> AxesImage:
    """A picture of the cosines [loops, loops] between loops' increments, empty at None."""
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    # Red to blue: readable for the colour-blind.
    image = axes.imshow(
        np.array(cosine, dtype=np.float64),
        cmap="RdBu",
        vmin=-1,
        vmax=1,
        origin="lower",
        extent=(*edges, *edges),
    )
    axes.grid(visible=False)
    whole_numbers(axes)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("increment of loop")
    axes.set_ylabel("increment of loop")
    return image


def draw(result: Cosines, folder: Path, name: str) -> list[Path]:
    """The two matrices as pictures."""
    path, loops, columns = folder / f"{name}.png", result["loops"], {}
    figure = Figure(figsize=(9.0, 4.2))
    panels = figure.subplots(1, 2)
    for axes, (sharing, curve) in zip(panels, result["cosine"].items(), strict=True):
        image = heat_map(axes, curve["mean"], loops)
        axes.set_title(sharing.replace("_", "-"))
        columns[sharing] = dict(zip(map(str, loops), curve["mean"], strict=True))
    figure.colorbar(image, ax=panels, label="cosine, mean over tokens and seeds")
    figure.suptitle(f"{result['what']}, ε = 1, {result['seeds']} seeds")
    save(figure, path, "loop", loops, columns)
    return [path]
