"""Which `python run.py experiment=NAME` makes a figure of `python -m experiments.stability`."""

import sys

_EXPERIMENTS = {
    "toy": "stability_theorems",
    "norms": "stability_fig2",
    "cosines": "stability_fig3",
    "changes": "stability_fig9",
    "sweep": "stability_fig5",
    "contrast": "stability_contrast",
    "trained": "stability_fig6",
    "variants": "fully_looped_table1",
    "fully_looped": "fully_looped_fig2",
}


def main(words: list[str]) -> int:
    """Say on one line which command makes the figure that was asked for; returns the exit code."""
    figure = next((w.removeprefix("figure=") for w in words if w.startswith("figure=")), "sweep")
    command = f"python run.py experiment={_EXPERIMENTS.get(figure, 'stability_fig5')}"
    own = "; of your own runs: looplab.experiments.residual_scaling.trained" * (figure == "trained")
    print(f"experiments.stability: is now {command}{own}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
