"""A demo: a Kafka broker, a click stream with faults, the job `page_views`, and its results."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Column, Table

from tidegate.errors import TidegateError
from tidegate.jobs.sample_clicks import SentRecord, clicks, send_clicks
from tidegate.process.exit_codes import run_with_exit_code
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import (
    SHORT_RUN_OPTIONS,
    GuardedProcess,
    config_arguments,
    spark_submit_command,
    submit_environment,
)

TOPIC = "clicks"
BATCH_ROWS = 20_000
MAX_SECONDS = 300.0

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class DemoFolder:
    """The folder of the demo's files; emptied at each run."""

    root: Path

    def reset(self) -> None:
        """Empty the folder."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def read_rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a Delta table, without Spark; none if it does not exist."""
        path = self.root / "tables" / table
        table_rows: list[dict[str, Any]] = (
            DeltaTable(path).to_pyarrow_table().to_pylist() if path.exists() else []
        )
        return table_rows


def main(
    count: Annotated[int, typer.Option(help="Number of clicks.", min=1_000)] = 60_000,
    seed: Annotated[int, typer.Option(help="Seed of the random clicks.")] = 11,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of the files; emptied first.", show_default=".run/demo"),
    ] = None,
) -> None:
    """Run the job page_views on a sample click stream, from Kafka to Delta."""
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    raise typer.Exit(
        run_with_exit_code(
            lambda: run_demo(count, seed, DemoFolder(folder or project_root() / ".run" / "demo"))
        )
    )


def _exit_on_sigterm(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


def run_demo(count: int, seed: int, folder: DemoFolder) -> None:
    """Send the clicks, run the job and print the results; stop all processes at the end."""
    start_time = time.monotonic()
    folder.reset()
    with console.status("starting a Kafka broker"), Broker.start(folder.root / "broker") as broker:
        # The clicks have a fixed date; a limited retention would delete them immediately.
        broker.create_topic(TOPIC, partitions=4, retention_ms=-1)
        print_step("started a Kafka broker", start_time)
        with console.status("sending clicks"):
            sent_records = send_clicks(
                broker.bootstrap_servers, TOPIC, clicks(count, seed=seed), partitions=4
            )
        print_step(f"sent {len(sent_records):,} clicks to 4 partitions", start_time)
        summary = run_job(folder, broker.bootstrap_servers)
        broker.kill()
    print_step("the job has processed all records; stopped the broker", start_time)
    print_report(folder, sent_records, summary)
    console.print(
        f"\nThe demo took {time.monotonic() - start_time:.0f} s; the job took "
        f"{summary['seconds']:.0f} s."
    )
    print_next_steps(folder)


def print_step(text: str, start_time: float) -> None:
    """Print one step with the seconds since the start."""
    console.print(f"{time.monotonic() - start_time:5.1f} s  {text}")


def run_job(folder: DemoFolder, bootstrap_servers: str) -> dict[str, Any]:
    """Run jobs/page_views.py with spark-submit until it ends; return its summary."""
    log = folder.root / "job.log"
    summary_path = folder.root / "summary.json"
    options = {
        "kafka.bootstrap_servers": bootstrap_servers,
        "input.topics": TOPIC,
        "input.max_records_per_batch": BATCH_ROWS,
        "output.root": folder.root / "tables",
    }
    arguments = ["--summary", str(summary_path), *config_arguments(options)]
    script = project_root() / "jobs" / "page_views.py"
    process = GuardedProcess(
        spark_submit_command(
            script, *arguments, conf={"spark.ui.enabled": "false"}, jvm_options=SHORT_RUN_OPTIONS
        ),
        log,
        name="the job",
        env=submit_environment(),
    )
    try:
        with console.status("spark-submit jobs/page_views.py: Spark is starting") as status:
            follow_job(process, log, lambda line: status.update(line[: console.width - 4]))
    finally:
        process.kill()
    if not summary_path.exists():
        raise TidegateError(f"the job failed; the last lines of {log}:\n{process.tail()}")
    return dict(json.loads(summary_path.read_text(encoding="utf-8")))


def follow_job(process: GuardedProcess, log: Path, show_line: Any) -> None:
    """Display the job's progress lines until it ends."""
    deadline = time.monotonic() + MAX_SECONDS
    with log.open(encoding="utf-8", errors="replace") as lines:
        while process.is_alive:
            if time.monotonic() > deadline:
                raise TidegateError(f"the job did not end within {MAX_SECONDS:.0f} s; see {log}")
            for line in lines:
                if line.startswith("page_views"):
                    show_line(line.strip())
            time.sleep(0.1)


def print_report(
    folder: DemoFolder, sent_records: Sequence[SentRecord], summary: dict[str, Any]
) -> None:
    """Print the most viewed pages by window, the row counts, and examples of dead letters."""
    views = folder.read_rows("views")
    print_section(
        "Most viewed pages by window, with views and mean response time", busiest_pages(views)
    )
    print_section(
        "Row counts by output",
        count_records(views, folder.read_rows("late_rows"), sent_records, summary),
    )
    print_section("Dead letters", dead_letter_examples(folder.read_rows("dead_letters")))


def print_section(title: str, table: Table) -> None:
    """Print a table under its title."""
    console.print(f"\n{title}", style="bold")
    console.print(table)


def busiest_pages(views: Sequence[dict[str, Any]], top: int = 3) -> Table:
    """Return the pages with the most views of each window."""
    table = Table(
        "window (UTC)", "views", *(f"{rank}. page" for rank in ("1", "2", "3")[:top]), box=None
    )
    for start in sorted({row["window"]["start"] for row in views}):
        rows = sorted(
            (row for row in views if row["window"]["start"] == start), key=lambda row: -row["views"]
        )
        pages = [f"{row['page']} ({row['views']:,}, {row['mean_ms']:.0f} ms)" for row in rows[:top]]
        end = rows[0]["window"]["end"]
        table.add_row(
            f"{start:%H:%M} - {end:%H:%M}", f"{sum(row['views'] for row in rows):,}", *pages
        )
    return table


def count_records(
    views: Sequence[dict[str, Any]],
    late_rows: Sequence[dict[str, Any]],
    sent_records: Sequence[SentRecord],
    summary: dict[str, Any],
) -> Table:
    """Return the number of records by output.

    Each record is in exactly one table, or in a window that is still open.
    """
    counted = sum(row["views"] for row in views)
    still_open = summary["rows_in"] - counted - summary["late_rows"] - summary["dead_letters"]
    table = Table("where", Column("rows", justify="right"), "", box=None)
    table.add_row("sent", f"{len(sent_records):,}", "acknowledged by the broker")
    table.add_row("read", f"{summary['rows_in']:,}", f"in {summary['batches']} micro-batches")
    table.add_row("= counted", f"{counted:,}", f"in {len(views):,} rows of the views table")
    oldest = max((row["watermark"] - row["event_time"] for row in late_rows), default=timedelta())
    table.add_row(
        "+ late",
        f"{summary['late_rows']:,}",
        f"in late_rows; up to {oldest.seconds / 3600:.1f} hours late",
    )
    table.add_row("+ dead", f"{summary['dead_letters']:,}", "in dead_letters, with the reason")
    table.add_row("+ open", f"{still_open:,}", "in windows that are still open")
    duplicate_count = sum(record.click.is_duplicate for record in sent_records)
    table.add_row(
        "duplicates",
        f"{duplicate_count:,}",
        "of the sent records; this job does not deduplicate",
    )
    return table


def dead_letter_examples(letters: Sequence[dict[str, Any]]) -> Table:
    """Return one dead letter for each reason."""
    table = Table("rows", "reason", "value", box=None)
    counts = Counter(row["reason"] for row in letters)
    for reason, number in counts.most_common(8):
        value = next(row["value"] for row in letters if row["reason"] == reason)
        text = bytes(value or b"").decode("utf-8", "backslashreplace")
        table.add_row(str(number), str(reason), text if len(text) <= 44 else f"{text[:41]}...")
    return table


def print_next_steps(folder: DemoFolder) -> None:
    """Print the paths of tables and logs, and the next commands to try."""
    tables = folder.root / "tables"
    job = "jobs/page_views.py --set window.kind=hopping --set window.hop='10 seconds'"
    console.print(
        f"Tables: {tables}/views, late_rows, dead_letters. Log of the job: "
        f"{folder.root / 'job.log'}",
        soft_wrap=True,
    )
    console.print("\nTry next:", style="bold")
    for line in (
        "  . .venv/bin/activate",
        '  python -c "import pyarrow; from deltalake import DeltaTable, QueryBuilder; '
        f"views = QueryBuilder().register('views', DeltaTable('{tables}/views')); "
        "print(pyarrow.table(views.execute('select * from views').read_all()).to_pandas())\"",
        "  make broker PORT=9092      # in another terminal, for the commands below",
        "  tidegate produce clicks --sample 5000 --create 4",
        "  spark-submit --properties-file conf/spark-defaults.conf --jars '.jars/spark/*.jar' "
        f"{job}",
    ):
        console.print(line, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
