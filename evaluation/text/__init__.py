"""Measures of a language model: bits per byte of texts, likelihoods, and what it writes."""
