"""Several trainings or evaluations at once, each in a process of its own."""
