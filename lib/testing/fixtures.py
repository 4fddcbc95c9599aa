"""Fixtures for pytest: `pytest_plugins = ["lib.testing.fixtures"]` in your conftest.py makes them yours."""
