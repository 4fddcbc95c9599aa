"""The search for sequences, over arrays of all that began at once."""
