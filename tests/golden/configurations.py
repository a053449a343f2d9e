"""Small trainings that between them have each family, way to loop, block, attention,
optimiser, schedule and kind of loss; every schedule turns within their four steps.

Of each: the loss of every step, and of the last and the averaged weights each tensor's norm and 32
numbers. On other processors and threads losses differ by less than 1e-5 of themselves, weights by
less than 1e-4: sums round otherwise, and over more steps the difference grows.

python configurations.py ROOT FOLDER numbers|bits    # the golden runs by the code in ROOT, as JSON:
                                  # their numbers, or the sha256 of the weights after 30 steps
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
# The code at the head of the path may be from before the package's name (`against=`).
_PACKAGE = "reloop" if Path(sys.path[0], "reloop", "models").exists() else "looplab"
_SIZE = (
    *("task.dims=4", "task.points=9", "model.n_embd=16", "model.n_head=2", "model.n_positions=9"),
    *("training.batch_size=8", "training.steps=4", "training.log_every=1", "training.warmup=2"),
    *("curriculum.dims.start=2", "curriculum.dims.intervals=[1]", "curriculum.points.start=3"),
    *("curriculum.points.inc=2", "curriculum.points.intervals=[1]", "training.decay=0.5"),
)
_LOOPS = ("loops.b=4", "loops.T=2", "curriculum.loops.start=2", "curriculum.loops.intervals=[1]")
_DRAWN = ("loops.b=4", "loops.T=2", "curriculum.dims.start=2")
_TEXT = (
    *("curriculum.dims.start=null", "task.dims=1", "task.points=9", "curriculum.points.start=3"),
)
GOLDEN: dict[str, tuple[str, ...]] = {
    "sparse, fast recipe": ("task=sparse_linear", "task.sparsity=1", "loops.stop_at=0.01", *_LOOPS),
    "paper's recipe, multiplied": (
        *("task=linear", "recipe=paper", "training.optimizer=adam", "loops.grad_loops=half"),
        *("model.injection=multiply", *_LOOPS),
    ),
    "tied": ("task=decision_tree", "model=tied", "training.weight_decay=0.1", "loops.b=3"),
    "standard, shards": (
        *("task=relu_network", "model=standard", "model.n_layer=2", "training.shards=2"),
        *("model.residual_scaling=sqrt", "training.optimizer=adamw"),
    ),
    "LT, posterior means": (
        *("task=noisy_linear", "model=LT", "model.n_layer=2", "model.block=flt"),
        *("training.targets=posterior_mean", *_LOOPS),
    ),
    "LT_i, sliding, Llama": (
        *("task=linear", "model=LT_i", "model.n_layer=3", "model.block=llama"),
        *("model.attention=sliding", "model.pattern=SL", "task.distinct_functions=8", *_LOOPS),
    ),
    "LT_ai, grouped": (
        *("task=mixture", "model=LT_ai", "model.n_layer=2", "model.block=flt"),
        *("model.attention=grouped", "model.n_kv=1", "task.distinct_prompts=8", *_LOOPS),
    ),
    "FLT, latent": (
        *("task=conditioned_linear", "model=FLT", "model.n_layer=2", "model.block=flt"),
        *("model.attention=latent", "model.rank=5", "model.residual_scaling=linear", *_LOOPS),
    ),
    "FLT_res, drawn loops": (
        *("task=linear", "model=FLT_res", "model.n_layer=2", "model.block=llama"),
        *("loops.sampling=poisson_lognormal", *_DRAWN),
    ),
    "recurrent, a text": (
        *("task=language", *_TEXT, "model=recurrent", "model.block=relu2", "model.softcap=15"),
        *("training.optimizer=muon", "training.muon_norm=kept", "loops.sampling=uniform"),
        *("loops.b=3", "loops.T=2", "model.n_layer=1", "model.prelude=1", "model.coda=1"),
        *("training.embedding_rate=0.01", "training.head_rate=0.003"),
    ),
    "sandwich, a text": (
        *("task=language", *_TEXT, "model=recurrent", "model.block=sandwich"),
        *("model.norm=at_readout", "model.tied_head=true", "model.n_hidden=24"),
        *("model.rope_base=50000", "model.n_layer=1", "model.prelude=1", "model.coda=1"),
        *("training.recompute=true", "loops.b=3", "loops.T=2"),
    ),
    "lanes, classes": (
        *("task=halfspaces", "model.injection=none", "model.lanes=2", "loops.grad_loops=all"),
        *("loops.b=4", "loops.T=4", "curriculum.loops.start=null", "model.block=llama"),
    ),
    "curves": ("task=curves", "training.targets=posterior_mean", "model.tokens=pairs", *_LOOPS),
    "random tables": ("task=tables_prior", "model.tokens=pairs", *_LOOPS),
    "random tables of numbers": ("task=tables_prior_regression", "model.tokens=pairs", *_LOOPS),
    "penalty, norm at the read-out": (
        *("task=linear", "model.injection=none", "model.norm=at_readout"),
        *("model.residual_scaling=factored", "model.residual_factor=0.7"),
        *(
            "training.jacobian_penalty=0.1",
            "training.log_norms=true",
            "loops.grad_loops=all",
            *_LOOPS,
        ),
    ),
    "linear attention": (
        *("task=conditioned_linear", "model=linear_attention", "model.n_embd=4"),
        *("model.n_head=1", *_LOOPS),
    ),
    "pairs": ("task=linear", "recipe=fast", "model.tokens=pairs", *_LOOPS),
    "post-norm, act": (
        *("task=linear", "model.block_norm=post", "model.residual_scaling=deepnorm"),
        *("loops.halt=act", *_LOOPS),
    ),
    "post-norm, ponder": (
        *("task=linear", "model.block_norm=post", "model.residual_scaling=deeploop"),
        *("model.block=llama", "loops.halt=ponder", *_LOOPS),
    ),
}


def of_code(module: str, name: str) -> Any:
    """A name in a module of the code that is measured."""
    return getattr(import_module(f"{_PACKAGE}.{module}"), name)


def config_of(name: str, folder: Path, steps: int = 4) -> Any:
    """The configuration of a golden run; its own words go over those of its size."""
    keys = {word.partition("=")[0] for word in GOLDEN[name]}
    size = [word for word in _SIZE if word.partition("=")[0] not in keys]
    words = [f"training.steps={steps}" if word == "training.steps=4" else word for word in size]
    return of_code("conf.schema", "Config").of(
        *GOLDEN[name], *words, "device=cpu", f"folder={folder}"
    )


def numbers(name: str, folder: Path) -> dict[str, Any]:
    """The numbers of a golden run, trained in a folder."""
    run = of_code("training", "train")(config_of(name, folder))
    lines = (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    find = of_code("training.run_folder.checkpoint", "newest_checkpoint")
    checkpoint, _ = find(run.path / "checkpoints")
    return {
        "losses": [json.loads(line)["loss"] for line in lines],
        "last": _of(checkpoint.last_weights()),
        "averaged": _of(run.model.state_dict()),
    }


def _of(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Each tensor's norm, and 32 numbers spread over all of them; 0 for the bias of a key, which
    attention's softmax does not see: its gradient is rounding, of which Adam makes whole steps."""
    ordered = [weights[name].double().flatten() for name in sorted(weights)]
    for name, values in zip(sorted(weights), ordered, strict=True):
        if name.endswith("qkv.bias"):
            third = len(values) // 3
            values[third : 2 * third] = 0
    every = torch.cat(ordered)
    places = torch.linspace(0, len(every) - 1, 32).long()
    norms = {name: float(weights[name].double().norm()) for name in sorted(weights)}
    return {"norms": norms, "numbers": every[places].tolist()}


def bits(name: str, folder: Path) -> str:
    """The sha256 of the weights after 30 steps; "" where this code does not have its settings."""
    try:
        config = config_of(name, folder, steps=30)
    except ValueError:
        return ""
    run = of_code("training", "train")(config)
    parts = (weights.numpy().tobytes() for _, weights in sorted(run.model.state_dict().items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = numbers if sys.argv[3] == "numbers" else bits
    with redirect_stdout(sys.stderr):
        found = {name: asked(name, Path(sys.argv[2])) for name in GOLDEN}
    print(json.dumps(found, indent=1))
