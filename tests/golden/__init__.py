"""Numbers that no change may move: see runs.py and __main__.py."""
