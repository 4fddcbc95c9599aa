"""Tests of pattern matching, deviation detection and the percolator."""
