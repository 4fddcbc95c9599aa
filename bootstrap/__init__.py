"""Sets up a checkout: `.venv`, the locked packages, tidegate itself and the jars. Plain Python, run
before all else."""
