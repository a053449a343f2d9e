"""Models that travel: a finished run as a folder that other machines and libraries read."""
