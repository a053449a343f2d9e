"""conf/ says what can be run: YAML files, the typed schema they fill, and how they are composed."""

if "." not in __name__:
    raise ImportError("conf is a part of looplab: from looplab.conf import …")
