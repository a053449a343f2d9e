"""Tests of the curricula."""
