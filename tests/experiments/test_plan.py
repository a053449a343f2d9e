"""The FLOPs of a training on texts against counting by hand."""

from looplab.conf.compose import commands
from looplab.experiments.plan import Flops
from looplab.training.assemble import build_curriculum, build_task, model_of

_STEPS, _BATCH, _POINTS, _D = 10, 4, 16, 32


def _flops(*words: str) -> float:
    (command,) = commands(
        [
            *("task=language", "model=recurrent", f"task.points={_POINTS}", f"model.n_embd={_D}"),
            *("model.n_layer=1", "model.n_head=2", "model.block=relu2", "loops.b=2"),
            *(f"training.steps={_STEPS}", f"training.batch_size={_BATCH}", *words),
        ]
    )
    config = command.config
    model = model_of(config, vocabulary=257)
    return Flops(config, model, build_curriculum(config, build_task(config)))(_STEPS)


def test_products_of_each_loop_and_of_what_is_around_it() -> None:
    """Six FLOPs for each weight that multiplies and each token, gradients through all loops: two
    loops of the block and of the injection, prelude, coda and head; and attention."""
    block, injection, head = 12 * _D**2, 2 * _D**2, 320 * _D
    weights = 2 * (block + injection) + 2 * block + head
    attention = 4 * 4 * _POINTS * _D  # of four layers, forward
    by_hand = _STEPS * _BATCH * _POINTS * (6 * weights + 3 * attention)
    assert _flops("training.optimizer=adamw") == by_hand


def test_muon_orthogonalises_its_matrices_and_the_injection_on_the_sphere() -> None:
    """Five polynomials of degree five: three products of the short side."""

    def orthogonalised(*shapes: tuple[int, int]) -> int:
        return 5 * sum(4 * short**2 * long + 2 * short**3 for short, long in shapes)

    layer = orthogonalised(*[(_D, _D)] * 4, *[(_D, 4 * _D)] * 2)
    adam = _flops("training.optimizer=adamw")
    assert _flops("training.optimizer=muon") - adam == _STEPS * 3 * layer
    kept = _flops("training.optimizer=muon", "training.muon_norm=kept")
    assert kept - adam == _STEPS * (3 * layer + orthogonalised((_D, 2 * _D)))
