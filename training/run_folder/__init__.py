"""A run folder: its files, locks, checkpoints, metrics and what made it."""
