"""The command `tidegate`, run as `python -m tidegate`."""

from .cli import main

main()
