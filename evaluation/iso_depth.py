"""`python -m evaluation.iso_depth` has moved to `python -m experiments.iso_depth`."""

from reloop.conf.moved import moved

if __name__ == "__main__":
    moved("evaluation.iso_depth", "experiments.iso_depth")
