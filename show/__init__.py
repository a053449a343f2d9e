"""Pictures, tables and texts of what was measured. Two commands of evaluation/ import it."""
