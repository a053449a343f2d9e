"""Tests of the room openml_eval."""
