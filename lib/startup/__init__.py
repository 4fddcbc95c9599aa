"""Checks before a query starts: checkpoint, tables, inputs and configuration."""
