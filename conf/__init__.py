"""What can be run: YAML files, the typed schema they fill, and how they are composed."""

if "." not in __name__:
    raise ImportError("in a checkout too it is looplab.conf: from looplab.conf import …")
