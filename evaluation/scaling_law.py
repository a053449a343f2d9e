"""`python -m evaluation.scaling_law` has moved to `python -m experiments.scaling_law`."""

from reloop.conf.moved import moved

if __name__ == "__main__":
    moved("evaluation.scaling_law", "experiments.scaling_law")
