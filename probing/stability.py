"""`python -m probing.stability` has moved to `python -m experiments.stability`."""

from reloop.conf.moved import moved

if __name__ == "__main__":
    moved("probing.stability", "experiments.stability")
