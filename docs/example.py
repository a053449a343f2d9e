"""A looped transformer learns linear functions in context: arXiv 2311.12424 on one page.

python docs/example.py [curve.png]   # plain PyTorch, one to two minutes; a table, and its picture
"""

import sys

import torch
from torch import Tensor, nn

DIMS = 2  # numbers of an x
POINTS = 8  # pairs (x, y) of a prompt: the last y has 7 examples
WIDTH = 32  # of the block
HEADS = 4
LOOPS = 6  # b
WINDOW = 3  # T, the last loops, which count in the loss
STEPS = 2500
BATCH = 64
RATE = 5e-3  # Adam's


def sample(prompts: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The task, tasks/linear.py: xs [prompts, points, dims] and ys [prompts, points]. Each prompt
    has a function of its own, y = w · x, with w and x from N(0, 1)."""
    xs = torch.randn(prompts, POINTS, DIMS, generator=generator)
    w = torch.randn(prompts, DIMS, 1, generator=generator)
    return xs, (xs @ w)[..., 0]


class LoopedTransformer(nn.Module):
    """The model, models/loops/loop.py: one block M, many loops Y ← M(Y + P) of the prompt P."""

    def __init__(self) -> None:
        super().__init__()
        self.read_in = nn.Linear(DIMS, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(2 * POINTS, WIDTH))
        # A layer of GPT-2, as models/blocks/gpt2.py has it: norm, attention, norm, MLP.
        self.block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0, nn.GELU("tanh"), batch_first=True, norm_first=True
        )
        self.last_norm = nn.LayerNorm(WIDTH)
        self.read_out = nn.Linear(WIDTH, 1)

    def forward(self, xs: Tensor, ys: Tensor, loops: int, window: int) -> Tensor:
        """Predictions of all y after each of the last `window` loops: [window, prompts, points]."""
        # The paper's prompt is x₁, y₁, x₂, y₂, …, a y padded with zeros to the length of an x.
        padded = nn.functional.pad(ys[..., None], (0, DIMS - 1))
        tokens = torch.stack((xs, padded), dim=2).flatten(1, 2)  # [prompts, 2 points, dims]
        P = self.read_in(tokens) + self.positions
        causal = nn.Transformer.generate_square_subsequent_mask(2 * POINTS)
        Y = torch.zeros_like(P)
        predictions = []
        for loop in range(loops):
            if loop == loops - window:
                Y = Y.detach()  # gradients reach back through the window alone
            Y = self.last_norm(self.block(Y + P, causal, is_causal=True))
            if loop >= loops - window:
                predictions.append(self.read_out(Y[:, ::2])[..., 0])  # at x, before its y
        return torch.stack(predictions)


def train(steps: int) -> LoopedTransformer:
    """The model after so many steps, each on new prompts, as training/loop.py has it."""
    generator = torch.manual_seed(0)
    model = LoopedTransformer()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.01, total_iters=steps)
    for step in range(1, steps + 1):
        xs, ys = sample(BATCH, generator)
        # The mean over the last T loops, the prompts and all numbers of examples.
        loss = (model(xs, ys, LOOPS, WINDOW) - ys).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        rate.step()
        if step % 100 == 0:
            print(f"step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    return model


def errors(model: LoopedTransformer) -> dict[str, list[float]]:
    """Squared errors over the variance of y after 0, 1, … examples, as evaluation/ has them."""
    xs, ys = sample(1000, torch.Generator().manual_seed(1))  # which training has not seen
    (looped,) = model(xs, ys, LOOPS, window=1).detach()
    least_squares = torch.zeros_like(ys)
    for k in range(1, POINTS):
        w = torch.linalg.pinv(xs[:, :k]) @ ys[:, :k, None]  # of least norm, where several fit
        least_squares[:, k] = (xs[:, k] * w[..., 0]).sum(1)
    predictions = {"looped": looped, "least squares": least_squares, "zero": torch.zeros_like(ys)}
    return {name: ((y - ys).square().mean(0) / DIMS).tolist() for name, y in predictions.items()}


def main(steps: int = STEPS, picture: str = "") -> dict[str, list[float]]:
    """Train, print the errors as a table, and draw them where a file is named."""
    curves = errors(train(steps))
    print("examples", *(f"{name:>13}" for name in curves))
    for k, row in enumerate(zip(*curves.values(), strict=True)):
        print(f"{k:8}", *(f"{error:13.3f}" for error in row))
    if picture:
        from matplotlib import pyplot

        pyplot.plot(torch.tensor(list(curves.values())).T, label=list(curves))
        pyplot.gca().set(xlabel="in-context examples", ylabel="error over the variance of y")
        pyplot.legend()
        pyplot.savefig(picture)
    return curves


if __name__ == "__main__":
    picture = "".join(sys.argv[1:])
    if picture and not picture.endswith(".png"):
        sys.exit(__doc__)
    torch.set_num_threads(1)  # so small a model gains nothing from more
    main(picture=picture)
