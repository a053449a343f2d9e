"""Prompts from a text: documents, tokenisers, and the task."""

from .task import Language

__all__ = ["Language"]
