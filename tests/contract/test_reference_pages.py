"""The reference and operating pages name what the code has: metrics, alerts, columns, options."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml
from prometheus_client import generate_latest

import tidegate
from docs._site import command_line
from tests.support.query_probe import samples
from tests.telemetry.test_report import example_metrics
from tidegate import errors
from tidegate.cli import app
from tidegate.commit.batch import STAMP_FORM, BatchPlan, CommitContext, Stamp
from tidegate.commit.batch import UNIX_EPOCH as NO_WATERMARK
from tidegate.job.job import OFFSET_GAPS_SCHEMA
from tidegate.process.exit_codes import EXIT_CODES
from tidegate.sinks.windows.alarms import ALARM_LOG_COLUMNS
from tidegate.sources.side_output_rows import DEAD_LETTER_SCHEMA
from tidegate.telemetry.prometheus import PrometheusCollector

ROOT = Path(tidegate.__file__).parents[1]


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    """Return a section of a page, up to the next heading of the second level."""
    return text(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(markdown: str) -> set[str]:
    """Return the code in the first cells of all tables."""
    rows = re.findall(r"^\| ([^|]*) \|", markdown, re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([^`]+)`", row)}


def ddl_names(schema: str) -> list[str]:
    """Return the names of the top-level columns of a schema."""
    return re.findall(r"(?:^|, )(\w+) [A-Z]", schema)


def test_the_metrics_page_lists_the_exported_metrics_with_their_labels() -> None:
    exported: dict[str, set[str]] = {}
    for name, labels, _ in samples(
        generate_latest(PrometheusCollector(example_metrics())).decode()
    ):
        metric = re.sub(r"(?<=duration_seconds)_(bucket|sum|count)$", "", name)
        exported.setdefault(metric, set()).update(label for label, _ in labels if label != "le")
    # The example run has no rules.
    exported["tidegate_rule_violations_total"] = {"rule"}
    documented: dict[str, set[str]] = {}
    for cell in first_cells(text("reference/metrics.md")):
        metric, _, names = cell.rstrip("}").partition("{")
        documented[metric] = set(filter(None, names.split(",")))
    assert documented == exported


@pytest.mark.parametrize("page", ["operate/monitoring.md", "operate/runbook.md"])
def test_the_page_lists_all_alerts(page: str) -> None:
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text("utf-8"))
    names = {rule["alert"] for group in alerts["groups"] for rule in group["rules"]}
    assert {cell for cell in first_cells(text(page)) if cell.startswith("Tidegate")} == names


@pytest.mark.parametrize(
    ("title", "columns"),
    [
        ("Dead letters", ddl_names(DEAD_LETTER_SCHEMA)),
        ("Offset gaps", ddl_names(OFFSET_GAPS_SCHEMA)),
        ("Alarms", ALARM_LOG_COLUMNS),
    ],
)
def test_the_page_about_tables_lists_the_columns(title: str, columns: list[str]) -> None:
    assert first_cells(section("reference/tables.md", title)) == set(columns)


def test_the_page_about_tables_lists_the_keys_of_commit_metadata() -> None:
    plan = BatchPlan(
        job="page_views",
        query_id="q",
        run_id="r",
        number=0,
        offsets_hash="",
        start={},
        end={},
        watermark=NO_WATERMARK,
    )
    keys = STAMP_FORM.encode(Stamp.for_batch(CommitContext(plan=plan), "append")).keys()
    assert first_cells(section("reference/tables.md", "Commit metadata")) == {"format", *keys}


def test_the_runbook_has_each_exit_code() -> None:
    codes = re.findall(r"^\| (\d[\d, ]*) \|", section("operate/runbook.md", "Exit codes"), re.M)
    documented = {int(code) for cell in codes for code in cell.split(",")}
    assert documented == {0, 1, 130, 143, *(code for code, _ in EXIT_CODES.values())}


def test_the_page_about_errors_has_each_class_with_an_exit_code() -> None:
    headings = "\n".join(re.findall(r"^## (.*)$", text("reference/errors.md"), re.MULTILINE))
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value in EXIT_CODES
    }
    assert {name for name in classes if not re.search(rf"\b{name}\b", headings)} == set()


@pytest.mark.parametrize("name", sorted(command_line.EXAMPLES))
def test_the_example_of_a_command_has_options_that_exist(name: str) -> None:
    words = shlex.split(command_line.EXAMPLES[name])[2:]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    if name in command_line.JOB_GROUPS:
        command = command.commands[words.pop(0)]
    options = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_page_about_the_command_line_has_each_command() -> None:
    page = command_line.page()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        *(f"## {name}" for name in command_line.EXAMPLES),
        "## Exit codes",
    ]
