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

The Spark settings that a job sets or rejects, so that its results depend on its records and its
configuration only, not on the session or the machine.

- A value of the column "rejected": the job does not start, because someone has probably set the
  value on purpose. The error contains the setting and the value to set.
- Any other value: the job uses the value of the column "value in a job".
- A setting that starts with `spark.sql.legacy.` or `spark.databricks.delta.legacy.`: the job uses
  Spark's default, and logs a warning with the setting.

`run`, `replay`, `compare`, `follow` and `merge_late_rows` work in a copy of the session, so the
session itself does not change: a notebook retains its time zone.

!!! warning "DataFrames of the session"
    If a job uses a DataFrame that you created in the session, such as a table for a join, Spark
    computes it with the settings of the session. Read the table within the transform, or use
    expressions with an explicit time zone.

This page is generated from `tidegate.spark.result_settings`.
"""
HEADER = "| setting | value in a job | rejected | with another value |\n|---|---|---|---|"


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
