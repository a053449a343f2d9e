"""The iso-depth experiment: the worth of one recurrence on linear functions in context."""
