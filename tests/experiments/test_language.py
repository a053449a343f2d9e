"""What is measured in language models: the iso-depth law, and the cost of inference."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from looplab.conf.schema import EvaluationConfig, LoopsConfig, ModelConfig, TrainingConfig
from looplab.experiments import inference
from looplab.experiments import language_iso_depth as iso_flop
from looplab.experiments.evidence import Evidence
from looplab.experiments.question import _plain
from looplab.models import Model, ModelSpec
from looplab.tasks.language import Language
from tests.experiments.checks import check_panels, give, panels_of, run
from tests.experiments.claims.synthetic import language

_SETTINGS = EvaluationConfig(resamples=40)
_BLOCKS = 20


def test_phi_comes_back_from_losses_of_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses by the law with φ = .5; with half the gradients, .3."""
    runs, bits = [], {}
    for width, r, steps, half in product((8, 16, 32), (1, 2, 4), (50, 200, 800), (False, True)):
        if half and r == 1:
            continue
        shape: dict[str, Any] = {
            "n_layer": 4 // r, "n_embd": width, "n_head": 2, "n_positions": 8,
            "injection": "concat", "block": "relu2", "prelude": 1, "coda": 1,
        }  # fmt: skip
        model, name = (
            Model(ModelSpec(dims=1, vocabulary=257, **shape)),
            f"{width}-{r}-{steps}-{half}",
        )
        loops = LoopsConfig(b=r, T=1, grad_loops="half" if half else "all")
        config, training = ModelConfig("looped", **shape), TrainingConfig(steps=steps)
        runs.append(run(name, model=model, model_config=config, loops=loops, training=training))
        rec = sum(p.numel() for p in model.loop.blocks.parameters())
        effective = model.backbone_parameters() - rec + r ** (0.3 if half else 0.5) * rec
        loss = 0.5 + 20 * effective**-0.3 + 100 * (steps * 64 * 8) ** -0.5
        bits[name] = np.full((_BLOCKS, r), loss / math.log(2))
    give(monkeypatch, iso_flop, bits)
    result = iso_flop.measure(runs, replace(_SETTINGS, resamples=10))
    phi = result["phi"]
    assert set(phi) == {"gradients of all loops", "gradients of half the loops"}
    for kind, wanted in (("gradients of all loops", 0.5), ("gradients of half the loops", 0.3)):
        found = phi[kind]
        assert found is not None
        assert found["value"] == pytest.approx(wanted, abs=0.02)
    names = check_panels(panels_of(iso_flop, result))
    assert len(names) == 13
    assert names[0] == "iso-flop-gradients-of-all-loops-9"
    point = result["points"][0]
    assert point["D"] == 50 * 64 * 8
    # Six times the weights of every product, with those of the head, and attention.
    matrices = 8 * 8 * 12 * 6 + 8 * 16 + 320 * 8
    assert point["flops"] == pytest.approx(point["D"] * (6 * matrices + 12 * 6 * 8 * 8))


def test_inference() -> None:
    """Of a looped model of two layers, one before and one after them, and of a standard one."""
    task = Language(dims=1, tokens="bytes")
    shape: dict[str, Any] = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 8}
    outside: dict[str, Any] = {"family": "looped", "injection": "concat", "prelude": 1, "coda": 1}
    runs = []
    for settings in (outside, {"family": "standard", "injection": "none"}):
        spec = ModelSpec(dims=1, vocabulary=257, block="flt", **settings, **shape)
        own = ModelConfig(block="flt", **settings, **shape)
        loops = LoopsConfig(b=3, T=1, grad_loops="all")
        for seed in (0, 1):
            model, generator = Model(spec), Generator().manual_seed(seed)
            for parameter in model.parameters():  # initially all loops are the same
                parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
            made = run(f"{own.family}-{seed}", seed, model, model_config=own, loops=loops)
            runs.append(replace(made, task=task))
    result = _plain(inference.measure(runs, replace(_SETTINGS, prompts=10)))
    (standard, looped), caches = result["groups"], ("own", "shared")
    assert (standard["loops"], looped["loops"]) == (1, 3)
    layer = 2 * 4 * 16  # bytes of keys and values, float32
    assert [standard[cache]["bytes"] for cache in caches] == [2 * layer, 2 * layer]
    assert [looped[cache]["bytes"] for cache in caches] == [8 * layer, 4 * layer]
    assert standard["own"]["bits"] == standard["shared"]["bits"]
    assert looped["own"]["flops"] > standard["own"]["flops"]
    assert all(min(group[cache].values()) > 0 for group in result["groups"] for cache in caches)
    names = check_panels(panels_of(inference, result))
    assert names == ["bits", "flops", "bytes", "speed_1", "speed_8", "speed_32"]
    found = inference.shared_over_own(Evidence(language(2.0, 3), {"inference": result}))
    assert found.mean == pytest.approx(looped["shared"]["bits"] / looped["own"]["bits"])
    assert found.mean != 1
    assert found.seeds == 2
