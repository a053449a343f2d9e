"""Several trainings or evaluations at once, each in its own process."""
