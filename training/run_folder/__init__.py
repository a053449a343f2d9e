"""A run folder: its files, locks, checkpoints, metrics and environment."""
