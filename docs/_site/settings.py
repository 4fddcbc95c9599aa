"""The reference of settings that can change a result, generated from their only table."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.spark.result_settings import (
    HARMLESS_SETTINGS,
    PINNED_THREADS,
    SETTINGS,
    WORKER_PYTHON,
    Setting,
)

BEFORE = """# Settings of the session

A job depends on its records and its configuration, not on the session or the machine. `run`,
`replay`, `compare`, `follow` and `merge_late_rows` therefore work in a copy of the session that
they get, with the values below. The session itself is not changed: a notebook retains its time
zone.

A job does not start with a value of the column "refused", because someone has chosen it on
purpose. The error names the setting and the value to set. A job replaces any other value. Settings
that start with `spark.sql.legacy.` or `spark.databricks.delta.legacy.` have Spark's defaults in a
job, and a warning lists those that it removes.

Rows that a job gets from a DataFrame of the session, such as a table for a join, are computed with
the settings of the session. Read the table within the transform, or use expressions that name
their zone.

This page is generated from `tidegate.spark.result_settings`.
"""
HEADER = "| setting | value in a job | refused | other values would change |\n|---|---|---|---|"


def page() -> str:
    """Return the page: the settings of the session, of the process, and those without an effect."""
    session = [setting for setting in SETTINGS if setting.kind == "Spark"]
    delta = [setting for setting in SETTINGS if setting.kind == "Delta"]
    harmless = [f"| `{name}` | {text} |" for name, text in HARMLESS_SETTINGS.items()]
    return "\n".join(
        [
            BEFORE,
            "## Spark\n",
            *_table(session),
            "\n## Delta\n",
            *_table(delta),
            "\n## Process\n",
            *_table([PINNED_THREADS, WORKER_PYTHON]),
            "\n## Without an effect\n",
            "| variable or property of the JVM | meaning |",
            "|---|---|",
            *harmless,
            "",
        ]
    )


def _table(settings: Iterable[Setting]) -> list[str]:
    return [HEADER, *map(_row, settings)]


def _row(setting: Setting) -> str:
    refused = ", ".join(f"`{value}`" for value in setting.refused)
    value = "not set" if setting.value is None else f"`{setting.value}`"
    return f"| `{setting.name}` | {value} | {refused} | {setting.effect} |"
