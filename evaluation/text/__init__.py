"""What a language model is worth: bits per byte of texts, questions, and what it writes."""
