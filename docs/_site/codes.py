"""The table of exit codes, generated from their only definition."""

from __future__ import annotations

from tidegate.process.exit_codes import EXIT_CODES


def table() -> str:
    """Return the exit codes, their meanings, and the errors that cause each."""
    meanings: dict[int, str] = {}
    errors: dict[int, list[str]] = {}
    for error, (code, meaning) in EXIT_CODES.items():
        meanings[code] = meaning
        errors.setdefault(code, []).append(f"[`{error.__name__}`][{_home(error)}]")
    lines = [
        "| code | meaning | errors |",
        "|---|---|---|",
        "| 0 | done, or stopped by SIGTERM or Ctrl-C after the running batch | |",
        "| 1 | any other failure | [`TidegateError`][tidegate.errors.TidegateError] |",
        *[
            f"| {code} | {meanings[code]} | {', '.join(errors[code])} |"
            for code in sorted(meanings)
        ],
        "| 130, 143 | stopped immediately by a second Ctrl-C or SIGTERM | |",
    ]
    return "\n".join(lines)


def _home(error: type[BaseException]) -> str:
    return f"{error.__module__}.{error.__name__}"
