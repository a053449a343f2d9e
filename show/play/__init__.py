"""A page on which anyone draws points and watches a model find the function, loop by loop."""
