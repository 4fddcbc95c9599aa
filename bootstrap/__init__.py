"""Sets up a checkout: `.venv`, the locked packages, tidegate itself and the jars.

It is plain Python, since it runs before anything is installed."""
