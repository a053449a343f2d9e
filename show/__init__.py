"""Pictures, tables and texts of what was measured: nothing that measures imports this room."""
