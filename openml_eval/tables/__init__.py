"""Tables with two classes: listed, fetched, checked and stored."""
