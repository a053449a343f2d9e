"""Optimisers, learning rates and averages of weights."""
