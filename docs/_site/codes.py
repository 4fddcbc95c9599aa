"""The table of exit codes, from the one place that says them."""

from __future__ import annotations

from tidegate.runtime.process.exit_codes import CODES


def table() -> str:
    """Return the exit codes, what each means, and the errors that end a job so."""
    meanings: dict[int, str] = {}
    errors: dict[int, list[str]] = {}
    for error, (code, meaning) in CODES.items():
        meanings[code] = meaning
        errors.setdefault(code, []).append(f"[`{error.__name__}`][{_home(error)}]")
    lines = [
        "| code | meaning | errors |",
        "|---|---|---|",
        "| 0 | done, or stopped as asked after the running batch | |",
        "| 1 | any other failure | [`TidegateError`][tidegate.errors.TidegateError] |",
        *[
            f"| {code} | {meanings[code]} | {', '.join(errors[code])} |"
            for code in sorted(meanings)
        ],
        "| 130, 143 | stopped at once by a second Ctrl-C or SIGTERM | |",
    ]
    return "\n".join(lines)


def _home(error: type[BaseException]) -> str:
    return f"{error.__module__}.{error.__name__}"
