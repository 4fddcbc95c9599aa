"""Sinks for windows that change: corrected windows and alarms."""
