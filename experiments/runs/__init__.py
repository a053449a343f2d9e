"""Commands over many run folders: a table of them, what two differ in, what may be removed."""
