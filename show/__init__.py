"""Pictures, tables and texts of what was measured. Of evaluation/ only its two commands import it."""
