"""Exactly-once commits of micro-batches to Delta tables."""
