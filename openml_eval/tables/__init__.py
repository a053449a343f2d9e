"""Tables with two classes: found, fetched, checked and stored."""
