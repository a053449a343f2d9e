"""Questions that take many trainings, each with a command of its own."""
