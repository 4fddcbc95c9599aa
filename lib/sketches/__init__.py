"""Sketches: small summaries of many values that merge, with the bounds of their error."""
