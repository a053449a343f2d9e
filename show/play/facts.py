"""What a page's engine (engine.js) needs of a model and of its task, as JSON; and what it cannot
compute.

facts = model_facts(run.model, points=40)
"""

import base64
import gzip

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model
from looplab.tasks.curves import Curves
from looplab.tasks.tables_prior import TablesPrior

# The settings of a model of which the engine knows these values alone.
_KNOWN = {
    "injection": ("add", "none"),
    "block": ("gpt2",),
    "attention": ("full",),
    "connectivity": (None,),
    "norm": ("in_loop",),
    "prelude": (0,),
    "coda": (0,),
    "lanes": (0,),
    "block_norm": ("pre",),
    "n_hidden": (0,),
    "classes": (0, 2),
    "vocabulary": (0,),
    "halts": (False,),
}
_READ = ("family", "tokens", "injection", "n_layer", "n_embd", "n_head", "dims", "classes")
_POSITIONS = "loop.positions"


def model_facts(model: Model, points: int, *, exact: bool = False) -> dict[str, object]:
    """A model as engine.js reads it, for up to so many points: its shape, the names and sizes of
    its weights, and these rounded to float16; `exact`: and what rounding left out, in as many bits.

    Raises ConfigError for a model that the engine cannot compute.
    """
    for name, values in _KNOWN.items():
        value = getattr(model.spec, name)
        if value not in values:
            known = " or ".join(map(str, values))
            raise ConfigError(f"model.{name}", f"must be {known} in a page, got {value}")
    weights = {name: weight.cpu().flatten() for name, weight in model.state_dict().items()}
    # A query stands where the next x would, after two tokens for each point.
    weights[_POSITIONS] = weights[_POSITIONS][: (2 * points + 1) * model.spec.n_embd]
    numbers = torch.cat([*weights.values()])
    rounded = numbers.half()
    # A float16 and the rest in another hold about 22 of float32's 24 bits.
    parts = [rounded, (numbers - rounded).half()] if exact else [rounded]
    return {
        **{name: getattr(model.spec, name) for name in _READ},
        "scale": model.residual_scale(),
        "shapes": [(name, len(weight)) for name, weight in weights.items()],
        "data": [_packed(part) for part in parts],
    }


def curve_facts(task: Curves) -> dict[str, object]:
    """Curves as engine.js draws them: feature j is cosine · cos(frequency · x) + sine ·
    sin(frequency · x), and its weight has variance j."""
    low, high = task.interval
    frequencies = task.frequencies()
    is_wave = frequencies > 0  # the others are constants
    quarters = torch.where(is_wave, torch.pi / 2 / frequencies, 0.0)
    # At x = 0 a feature shows its cosine alone, at a quarter of its wave its sine alone.
    cosines = task.features(torch.zeros_like(frequencies[0]))
    sines = task.features(quarters).diagonal() * is_wave
    return {
        "low": low,
        "high": high,
        "noise": task.noise_std,
        "deviation": task.divisor**0.5,
        "features": torch.stack((frequencies, cosines, sines), dim=1).tolist(),
        "variances": task.variances().tolist(),
    }


def table_facts(task: TablesPrior) -> dict[str, object]:
    """Random tables as table.js makes inputs of rows."""
    return {"labels": task.labels, "clip": task.clip, "dims": task.dims}


def _packed(numbers: Tensor) -> str:
    """float16 numbers [n] as base64 of gzip: all high bytes, then all low ones. Signs and
    exponents, which lie in the former, are much the same in all weights."""
    low_high = numbers.view(torch.uint8).view(-1, 2).numpy()  # little-endian, as every machine here
    planes = low_high[:, ::-1].T.tobytes()
    return base64.b64encode(gzip.compress(planes, mtime=0)).decode()
