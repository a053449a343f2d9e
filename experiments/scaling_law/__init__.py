"""The worth of one recurrence: the iso-depth scaling law, fitted to a table of losses."""
