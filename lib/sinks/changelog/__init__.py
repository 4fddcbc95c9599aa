"""Sinks for changelogs: current and history tables, temporal joins, percolation."""
