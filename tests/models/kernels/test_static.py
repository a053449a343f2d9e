"""All kernels compiled at the paper's shapes for GPUs that need not be there: they fit, their loops
do not access local memory, their products run on tensor cores, and none is computed twice. Ten
seconds a case."""

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
from looplab.benchmarks.kernels import SHARED_LIMIT, step_kernels
from looplab.models.kernels.common import Compute

capability, tokens, precision, injection = *map(int, sys.argv[1:3]), *sys.argv[3:]
compute = Compute(torch.bfloat16 if precision == "bf16" else torch.float32, precision == "tf32")
usages = [
    usage._asdict() | {"limit": SHARED_LIMIT[capability]}
    for usage in step_kernels(capability, compute, tokens, n_layer=2, injection=injection)
]
print(json.dumps(usages))
"""
KERNELS = {
    *("qkv_forward_kernel", "qkv_backward_kernel"),
    *("attention_forward_kernel", "attention_backward_kernel"),
    *("projection_forward_kernel", "projection_backward_kernel"),
    *("mlp_forward_kernel", "mlp_backward_kernel"),
    *("norm_forward_kernel", "norm_backward_kernel"),
}


PRODUCTS = {
    name for name in KERNELS if not name.startswith("norm") and name != "qkv_backward_kernel"
}

# The fastest of all tiles on an H200, although its loops spill.
MEASURED = {("attention_backward_kernel", "tf32")}


def compiled(capability: int, tokens: int, precision: str, injection: str) -> list[dict[str, Any]]:
    """What each kernel takes."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability), str(tokens), precision, injection],
        cwd=HOME, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def faults(usage: dict[str, Any], capability: int, precision: str) -> list[str]:
    """What is wrong with a kernel."""
    found = []
    shapes, executed = usage["tensor_shapes"], usage["executed"]
    if usage["shared"] > usage["limit"]:
        found.append(f"{usage['shared']} bytes of shared memory")
    if not usage["occupancy"]:
        found.append("a program does not fit a multiprocessor")
    if usage["loop_local"] and (usage["name"], precision) not in MEASURED:
        found.append(f"{usage['loop_local']} accesses of local memory in loops")
    if usage["name"] in PRODUCTS and precision != "ieee" and not shapes:
        found.append("no tensor cores")
    if executed not in (None, 1.0):
        found.append(f"{executed:.2f} times the products needed")
    if precision == "ieee" and shapes:
        found.append("rounded products")
    return [f"{usage['name']}: {fault}" for fault in found]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "tf32", "ieee"])
@pytest.mark.parametrize(("capability", "injection"), [(80, "add"), (90, "multiply")])
def test_kernels_fit_and_compute_each_product_once_on_tensor_cores(
    capability: int, precision: str, injection: str
) -> None:
    usages = compiled(capability, 201, precision, injection)
    assert {usage["name"] for usage in usages} == KERNELS
    found = [fault for usage in usages for fault in faults(usage, capability, precision)]
    assert not found, "\n".join(sorted(set(found)))
