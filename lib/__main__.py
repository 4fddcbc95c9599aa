"""The command `tidegate`, also as `python -m tidegate`."""

from __future__ import annotations

import signal

from .process.shutdown import exit_on_interrupt


def main() -> None:
    """Run the command line; a Ctrl-C while its modules are imported ends it without a trace."""
    exit_on_interrupt()
    from .cli import main as run_command

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()


if __name__ == "__main__":
    main()
