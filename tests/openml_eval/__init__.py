"""Tests of the room of real tables."""
