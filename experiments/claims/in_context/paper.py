"""What all claims of arXiv 2311.12424 have in common.

@of_paper("fig02_…", "…", figure="Figure 2", quantity="…", line=1.5, holds_if="below")
"""

from __future__ import annotations

from ..claim import Paper

# A ratio of errors that counts as no difference: curves a tenth apart lie on each other in the
# paper's figures, whose axes span one to four decades.
NO_WORSE = 1.1
STAYS = 1.5  # an error that grows by half is still of one size on the figures' axes

of_paper = Paper("arXiv 2311.12424", steps=500_000, size="d = 20").claim
