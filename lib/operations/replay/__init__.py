"""Replay: run a job over its log again into separate tables, compare them, and swap them in."""
