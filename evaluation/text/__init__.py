"""Measures of a language model: bits per byte of texts, questions, and what it writes."""
