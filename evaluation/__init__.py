"""Errors of a trained model with intervals, beside those of the solvers a user could take."""
