"""The claims of arXiv 2604.21106, on language models of bytes."""
