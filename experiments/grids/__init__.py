"""Grids: `python run.py -m …`, many runs of one command as a queue, with a table over all."""
