"""Tests of sequences."""
