"""What can be run: YAML files, the typed schema they fill, and how they are composed."""
