"""All kernels compiled at the paper's shapes for GPUs that need not be there: they fit, they spill
nothing, and their products run on tensor cores. Ten seconds a case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import HOME

# For a process of its own, which interprets nothing and whose launches launch nothing.
COMPILE = """
import json, sys, torch
from reloop.benchmarks.static import SHARED_LIMIT, step_kernels
from reloop.models.kernels.common import Compute

capability, precision, injection = int(sys.argv[1]), *sys.argv[2:]
compute = Compute(torch.bfloat16 if precision == "bf16" else torch.float32, precision == "tf32")
usages = [
    usage._asdict() | {"limit": SHARED_LIMIT[capability]}
    for tokens in (81, 201)
    for usage in step_kernels(
        capability, compute, 256, 8, tokens, n_layer=2, injection=injection
    )
]
print(json.dumps(usages))
"""
KERNELS = {
    *("qkv.forward_kernel", "qkv.backward_kernel"),
    *("attention.forward_kernel", "attention.backward_kernel"),
    *("projection.forward_kernel", "projection.backward_kernel"),
    *("mlp.forward_kernel", "mlp.backward_kernel", "mlp.weights_kernel"),
    *("norm.forward_kernel", "norm.backward_kernel"),
}


def compiled(capability: int, precision: str, injection: str) -> list[dict[str, Any]]:
    """What each kernel takes."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability), precision, injection],
        cwd=HOME, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def faults(usage: dict[str, Any], capability: int, precision: str) -> list[str]:
    """What is wrong with a kernel."""
    found = []
    instructions = usage["instructions"]
    wgmma, mma = instructions["wgmma"], instructions["mma"]
    if usage["shared"] > usage["limit"]:
        found.append(f"{usage['shared']} bytes of shared memory")
    if usage["stack"]:
        found.append(f"{usage['stack']} bytes spilled")
    if usage["products"] and precision != "ieee" and not wgmma + mma:
        found.append("no tensor cores")
    if usage["products"] and precision == "bf16" and capability == 90 and (mma or not wgmma):
        found.append("not all products by wgmma")
    if precision == "ieee" and wgmma + mma:
        found.append("rounded products")
    return [f"{usage['name']}: {fault}" for fault in found]


@pytest.mark.parametrize(
    "injection",
    ["add", *(pytest.param(other, marks=pytest.mark.slow) for other in ("multiply", "none"))],
)
@pytest.mark.parametrize(
    "precision",
    ["bf16", *(pytest.param(other, marks=pytest.mark.slow) for other in ("tf32", "ieee"))],
)
@pytest.mark.parametrize("capability", [pytest.param(80, marks=pytest.mark.slow), 90])
def test_kernels_fit_spill_nothing_and_use_tensor_cores(
    capability: int, precision: str, injection: str
) -> None:
    usages = compiled(capability, precision, injection)
    assert {usage["name"] for usage in usages} == KERNELS
    found = [fault for usage in usages for fault in faults(usage, capability, precision)]
    assert not found, "\n".join(sorted(set(found)))
