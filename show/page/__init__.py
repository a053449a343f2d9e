"""The report: everything measured in a runs folder as one HTML page that needs nothing else."""
