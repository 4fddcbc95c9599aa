"""Set up a checkout: `.venv`, the locked packages, tidegate itself and the jars.

The package uses only the standard library, because it runs before anything is installed."""
