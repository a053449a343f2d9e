"""As much of the reference's interface as a step uses, written for these tests: a linear model."""

from pathlib import Path

_FILES = {
    "nano_gpt": "",
    "tasks": """
import torch

class Task:
    def __init__(self, batch, points, dims, visible, device):
        self.xs = torch.randn(batch, points, dims, device=device).double()
        self.xs[..., visible:] = 0
        self.ys = self.xs.sum(-1)

def get_task_sampler(task_name, batch_size, n_points, n_dims, n_dims_truncated, device, sparsity):
    assert (task_name, sparsity) == ("sparse_linear_regression", 2)
    return lambda: Task(batch_size, n_points, n_dims, n_dims_truncated, device)
""",
    "curriculum": """
class Curriculum:
    def __init__(self, args):
        self.n_dims_truncated, self.n_points = args.dims.start, args.points.start
        self.n_loops, self.updates = args.loops.start, 0

    def update(self):
        self.updates += 1
""",
    "models": """
import nano_gpt
import torch

class Linear(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layer = torch.nn.Linear(dims, 1)

    def forward(self, xs):
        print("one forward")
        return self.layer(xs).squeeze(-1)

def build_model(args):
    print("a size")
    return Linear(args.n_dims)
""",
    "main_utils": "",
    "train": """
import wandb
from quinine import QuinineArgumentParser
from curriculum import Curriculum
from schema import schema
from models import build_model
from tasks import get_task_sampler

seen = []

def train_step(args, curriculum, model, xs, ys, optimizer, ctx, scaler):
    seen.append((xs.shape, xs.dtype, curriculum.n_loops, args.training.n_loop_window))
    loss = (model(xs) - ys).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), None, 0.0, {}
""",
}


def write_checkout(folder: Path) -> Path:
    """Write the files; the folder."""
    (folder / "scripts").mkdir()
    for name, text in _FILES.items():
        (folder / "scripts" / f"{name}.py").write_text(text, encoding="utf-8")
    return folder
