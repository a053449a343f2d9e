"""What one recurrence is worth on linear functions in context: the iso-depth experiment."""
