"""Experiments of many trainings, each with its own command."""
