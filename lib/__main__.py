"""`python -m tidegate`: the command `tidegate`."""

from .command import main

main()
