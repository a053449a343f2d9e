"""What the papers claim, as code: each claim has a sentence, a source, a published number where
there is one, and a function that estimates the same quantity from finished runs."""
