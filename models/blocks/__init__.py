"""The blocks that are looped, and their parts."""
