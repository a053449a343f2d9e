"""A training step of the reference's own code, as in its scripts/train.py.

The checkout (github.com/Leiay/looped_transformer) is imported in place. A step is one iteration of
its loop: a new sampler, `train_step` with its norm of every gradient, the curriculum and the
progress bar. The work of every 100th step (wandb) and of every 1000th (saving) is left out. Its
defaults hold: products in fp32, TF32 on CUDA, no autocast.
"""

import importlib.util
import io
import os
import sys
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config

# Our names of tasks: the reference's.
REFERENCE_TASKS = {
    "linear": "linear_regression",
    "sparse_linear": "sparse_linear_regression",
    "decision_tree": "decision_tree",
    "relu_network": "relu_2nn_regression",
}
# Modules that the reference imports but no training step uses: the attributes it imports.
_STAND_INS = {"quinine": ("QuinineArgumentParser",), "schema": ("schema",), "wandb": ()}

# Of its scripts/, each after those it imports.
FILES = ("nano_gpt", "tasks", "curriculum", "models", "main_utils", "train")


class Reference:
    """The reference's model and optimiser on a device; `step()` is one training step at full
    size. With `compiled` the model goes through torch.compile, as a comment in its script suggests.
    Errors as `load_reference`."""

    def __init__(
        self, checkout: Path, config: Config, device: torch.device, compiled: bool = False
    ) -> None:
        self.modules = load_reference(checkout)
        self.device = device
        self.args = reference_arguments(config)
        torch.manual_seed(config.seed)  # its samplers draw from the global generator
        with redirect_stdout(io.StringIO()):  # it prints its size, and a 0 in the first forward
            model = self.modules["models"].build_model(self.args.model).to(device)
            self.model = model.train()
            self.curriculum = self.modules["curriculum"].Curriculum(self.args.training.curriculum)
            self.optimizer = torch.optim.Adam(
                self.model.parameters(), lr=self.args.training.learning_rate, weight_decay=0.0
            )
            self.bar = tqdm(file=open(os.devnull, "w"))  # noqa: SIM115
            # Before compiling: that print in a loop would stop torch.compile.
            self.step()
        if compiled:
            self.model = torch.compile(self.model)

    def step(self) -> None:
        """One iteration of its loop."""
        training = self.args.training
        curriculum = self.curriculum
        sampler = self.modules["tasks"].get_task_sampler(
            task_name=training.task_name,
            batch_size=training.batch_size,
            n_points=curriculum.n_points,
            n_dims=self.args.model.n_dims,
            n_dims_truncated=curriculum.n_dims_truncated,
            device=self.device,
            sparsity=training.sparsity,
        )
        task = sampler()
        xs = task.xs.float()
        ys = task.ys.float()
        loss, *_ = self.modules["train"].train_step(
            self.args, curriculum, self.model, xs, ys, self.optimizer, None, None
        )
        curriculum.update()
        self.bar.update()
        self.bar.set_description(f"loss {loss}")


def load_reference(checkout: Path) -> dict[str, ModuleType]:
    """The modules of a checkout of github.com/Leiay/looped_transformer, imported in place.

    They import one another by names that are also ours (`models`, `tasks`). In sys.modules they
    have these only while they load, and `reference_<name>` afterwards. Raises ConfigError for a
    missing file.
    """
    paths = {name: checkout / "scripts" / f"{name}.py" for name in FILES}
    for path in paths.values():
        if not path.is_file():
            raise ConfigError(
                "reference", f"is no checkout: {checkout} holds no scripts/{path.name}"
            )
    saved_modules = {name: sys.modules.pop(name, None) for name in chain(FILES, _STAND_INS)}
    try:
        for name, attributes in _STAND_INS.items():
            sys.modules[name] = stand_in = ModuleType(name)
            vars(stand_in).update(dict.fromkeys(attributes))
        return {name: _load(name, path) for name, path in paths.items()}
    finally:
        for name, module in saved_modules.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reference_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def reference_arguments(config: Config) -> Any:
    """Our settings in the form of its configuration, with the curriculum at its end."""
    model = config.model
    task = config.task
    model_arguments = SimpleNamespace(
        n_positions=model.n_positions,
        n_embd=model.n_embd,
        n_layer=model.n_layer,
        n_head=model.n_head,
        family="gpt2_loop" if model.family == "looped" else "gpt2",
        n_dims=task.dims,
        pred_type="regression",
        loop_func="z=f(x+z)",
    )
    curriculum = SimpleNamespace()
    ends = {"dims": task.dims, "points": task.points, "loops": config.loops.b}
    for name, end in ends.items():
        growth = SimpleNamespace(start=end, end=end, inc=1, interval=5000)
        setattr(curriculum, name, growth)
    training = SimpleNamespace(
        task_name=REFERENCE_TASKS[task.name],
        batch_size=config.training.batch_size,
        learning_rate=config.training.learning_rate,
        n_loop_window=config.loops.T,
        # Its default if the task has none; for relu_network it is the number of hidden units.
        sparsity=task.settings.get("sparsity", 100),
        use_ctx=False,
        add_inputs_embeds=False,
        curriculum=curriculum,
    )
    return SimpleNamespace(model=model_arguments, training=training)
