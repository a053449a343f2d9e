"""What one recurrence is worth: the iso-depth scaling law, fitted to a table of losses."""
