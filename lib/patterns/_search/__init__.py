"""The NFA search for matches, vectorized over all partial matches."""
