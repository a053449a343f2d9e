"""The time of a whole training step: each variant in a process of its own, turn by turn."""
