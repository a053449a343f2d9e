"""All kernels compiled at the paper's shapes for GPUs that need not be there: they compile, and fit
a multiprocessor's shared memory. Ten seconds a case."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import HOME

# For a process of its own, which interprets nothing and whose launches only compile.
COMPILE = """
import json, sys, torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import Compute
from looplab.models.kernels.segment import run_shared
from looplab.models.loops.loop import SharedLoop
from looplab.models.segment import Span

capability, tokens, precision, injection = *map(int, sys.argv[1:3]), *sys.argv[3:]

class NoGpu:
    get_current_target = lambda self: GPUTarget("cuda", capability, 32)
    get_current_device = lambda self: capability  # compiled kernels are cached by target
    get_current_stream = lambda self, device: 0

launch, found = JITFunction.run, {}

def record(self, *args, grid, warmup, **kwargs):
    kernel = launch(self, *args, grid=grid, warmup=True, **kwargs)
    found[kernel.src.name] = max(kernel.metadata.shared, found.get(kernel.src.name, 0))

driver.set_active(NoGpu())
JITFunction.run = record
compute = Compute(torch.bfloat16 if precision == "bf16" else torch.float32, precision == "tf32")
with torch.device("meta"):
    loop = SharedLoop(BlockSpec(256, 8, 2, length=tokens), injection)
    e = torch.zeros(64, tokens, 256, requires_grad=True)
with torch.no_grad():
    run_shared(loop, e, e, compute, Span(0, 2), 1.0)
run_shared(loop, e, e, compute, Span(0, 2, keep=2), 1.0)[1].sum().backward()
print(json.dumps(found))
"""
KERNELS = {
    f"{part}_{way}_kernel"
    for part in ("qkv", "attention", "projection", "mlp", "norm")
    for way in ("forward", "backward")
}
LIMIT = {80: 163 * 1024, 90: 227 * 1024}  # bytes of a program, by capability (CUDA guide, table 27)


@pytest.mark.slow
@pytest.mark.parametrize("injection", ["add", "multiply"])
@pytest.mark.parametrize("precision", ["bf16", "tf32", "ieee"])
@pytest.mark.parametrize("tokens", [81, 201])
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_and_fit(
    capability: int, tokens: int, precision: str, injection: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability), str(tokens), precision, injection],
        cwd=HOME, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    shared = json.loads(done.stdout)
    assert set(shared) == KERNELS
    assert max(shared.values()) <= LIMIT[capability], shared
