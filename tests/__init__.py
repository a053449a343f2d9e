"""Tests; their folders mirror the rooms."""
