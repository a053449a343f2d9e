"""All kernels of all variants compiled at the paper's shapes for GPUs that need not be there: they
compile, fit a multiprocessor's shared memory, and spill no register but where it is known.

A case takes half a minute.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import HOME

# For a process of its own, which interprets nothing and whose launches only compile.
COMPILE = """
import json, re, subprocess, sys, tempfile, torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import Compute
from looplab.models.kernels.segment import run_shared
from looplab.models.kernels.variants import VARIANTS, Variants
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
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # A thread's stack: no kernel has arrays, so all of it is spilled registers.
    spilled = int(re.search(r"STACK:([0-9]+)", usage)[1])
    before = found.get(kernel.src.name, [0, 0])
    found[kernel.src.name] = [max(kernel.metadata.shared, before[0]), max(spilled, before[1])]

driver.set_active(NoGpu())
JITFunction.run = record
dtype = torch.bfloat16 if precision == "bf16" else torch.float32
with torch.device("meta"):
    loop = SharedLoop(BlockSpec(256, 8, 2, length=tokens), injection)
    e = torch.zeros(64, tokens, 256, requires_grad=True)
for way in range(max(map(len, VARIANTS.values()))):
    named = {field: names[min(way, len(names) - 1)] for field, names in VARIANTS.items()}
    compute = Compute(dtype, precision == "tf32", Variants(**named))
    with torch.no_grad():
        run_shared(loop, e, e, compute, Span(0, 2), 1.0)
    run_shared(loop, e, e, compute, Span(0, 2, keep=2), 1.0)[1].sum().backward()
print(json.dumps(found))
"""
KERNELS = {
    f"{part}_{way}_kernel"
    for part in ("qkv", "attention", "projection", "mlp", "norm")
    for way in ("forward", "backward")
} | {
    *("mlp_expand_kernel", "mlp_hidden_kernel", "mlp_norm_kernel", "mlp_gelu_kernel"),
    *("residual_kernel", "scale_kernel"),
}
# Bytes of a program, by capability (CUDA guide, table 27).
LIMIT = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
# What is known to spill, by precision and capability; docs/gpu.md says how much.
SPILLING = {
    ("bf16", 80): {"mlp_forward_kernel"},
    ("bf16", 90): {"mlp_forward_kernel"},
    ("bf16", 100): {"mlp_forward_kernel", "mlp_backward_kernel"},
    ("tf32", 80): {"attention_backward_kernel"},
    ("tf32", 90): {"mlp_forward_kernel", "attention_backward_kernel"},
    ("tf32", 100): {
        "mlp_forward_kernel",
        "attention_backward_kernel",
        "projection_backward_kernel",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("injection", ["add", "multiply"])
@pytest.mark.parametrize("precision", ["bf16", "tf32", "ieee"])
@pytest.mark.parametrize("tokens", [81, 201])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_kernels_compile_and_fit(
    capability: int, tokens: int, precision: str, injection: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability), str(tokens), precision, injection],
        cwd=HOME, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)  # bytes of shared memory and of spilled registers
    assert set(found) == KERNELS
    assert all(shared <= LIMIT[capability] for shared, _ in found.values()), found
    spilling = {name for name, (_, spilled) in found.items() if spilled}
    assert spilling <= SPILLING.get((precision, capability), set()), found
