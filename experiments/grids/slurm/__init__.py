"""Grids as Slurm job arrays, by submitit."""
