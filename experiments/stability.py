"""`python -m experiments.stability figure=NAME` of before: says which experiment is its figure."""

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

if __name__ == "__main__":
    figures = [word.removeprefix("figure=") for word in sys.argv if word.startswith("figure=")]
    name = _EXPERIMENTS.get((figures or ["sweep"])[0], "stability_fig5")
    print(f"experiments.stability: is now python run.py experiment={name}", file=sys.stderr)
    raise SystemExit(2)
