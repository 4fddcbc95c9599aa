"""See tidegate at work.

A Kafka broker, a click stream with faults, the page views job, and what the job made of them.
"""

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
from tidegate.runtime.process.exit_codes import guarded
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import QUICK, command, environment, with_options
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import Sent, produce
from tidegate.testing.process import GuardedProcess

TOPIC = "clicks"
BATCH_ROWS = 20_000
LONGEST_SECONDS = 300.0

say = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class Places:
    """Where the demo keeps its things; made anew each time."""

    root: Path

    def new(self) -> None:
        """Empty the folder."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Read a Delta table without Spark; no rows if it was never written."""
        path = self.root / "tables" / table
        found: list[dict[str, Any]] = (
            DeltaTable(path).to_pyarrow_table().to_pylist() if path.exists() else []
        )
        return found


def main(
    count: Annotated[int, typer.Option(help="How many clicks.", min=1_000)] = 60_000,
    seed: Annotated[int, typer.Option(help="Another seed, other clicks.")] = 11,
    folder: Annotated[
        Path | None, typer.Option(help="Emptied first.", show_default=".run/demo")
    ] = None,
) -> None:
    """Run the page views job on a made-up click stream, from Kafka to Delta."""
    signal.signal(signal.SIGTERM, _terminated)
    raise typer.Exit(
        guarded(lambda: demo(count, seed, Places(folder or project_root() / ".run" / "demo")))
    )


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


def demo(count: int, seed: int, places: Places) -> None:
    """Make the clicks, run the job and show the tables; stop at the end whatever was started."""
    began = time.monotonic()
    places.new()
    with say.status("starting a Kafka broker"), Broker.start(places.root / "broker") as broker:
        # The clicks are of a fixed day: a broker that keeps a week would delete them at once.
        broker.create_topic(TOPIC, partitions=4, retention_ms=-1)
        told("a Kafka broker runs", began)
        with say.status("sending clicks"):
            ledger = produce(broker.servers, TOPIC, clicks(count, seed=seed), partitions=4)
        told(f"{len(ledger):,} clicks are in the topic, on 4 partitions", began)
        summary = run_job(places, broker.servers)
        broker.kill()
    told("the job has drained the topic; the broker is stopped", began)
    report(places, ledger, summary)
    say.print(
        f"\nAll of it took {time.monotonic() - began:.0f} s; the job {summary['seconds']:.0f} s of "
        "them."
    )
    farewell(places)


def told(text: str, began: float) -> None:
    """Print one step with the seconds since the start."""
    say.print(f"{time.monotonic() - began:5.1f} s  {text}")


def run_job(places: Places, servers: str) -> dict[str, Any]:
    """Run jobs/page_views.py by spark-submit until it ends, and give its summary."""
    log = places.root / "job.log"
    numbers = places.root / "summary.json"
    options = {
        "kafka.servers": servers,
        "input.topics": TOPIC,
        "input.max_rows": BATCH_ROWS,
        "output.root": places.root / "tables",
    }
    arguments = ["--summary", str(numbers), *with_options(options)]
    script = project_root() / "jobs" / "page_views.py"
    process = GuardedProcess(
        command(script, *arguments, conf={"spark.ui.enabled": "false"}, java=QUICK),
        log,
        name="the job",
        env=environment(),
    )
    try:
        with say.status("spark-submit jobs/page_views.py: Spark is starting") as status:
            follow(process, log, lambda line: status.update(line[: say.width - 4]))
    finally:
        process.kill()
    if not numbers.exists():
        raise TidegateError(f"the job failed; its last words, from {log}:\n{process.tail()}")
    return dict(json.loads(numbers.read_text(encoding="utf-8")))


def follow(process: GuardedProcess, log: Path, show: Any) -> None:
    """Show the job's progress lines until it ends."""
    deadline = time.monotonic() + LONGEST_SECONDS
    with log.open(encoding="utf-8", errors="replace") as lines:
        while process.alive:
            if time.monotonic() > deadline:
                raise TidegateError(
                    f"the job did not end within {LONGEST_SECONDS:.0f} s; see {log}"
                )
            for line in lines:
                if line.startswith("page_views"):
                    show(line.strip())
            time.sleep(0.1)


def report(places: Places, ledger: Sequence[Sent], summary: dict[str, Any]) -> None:
    """Show the busiest pages by window, the account of all rows, and the dead letters."""
    views = places.rows("views")
    headed("The busiest pages by window, with their views and mean response time", busiest(views))
    headed("Where each record went", account(views, places.rows("late_rows"), ledger, summary))
    headed("What could not be read", dead_letters(places.rows("dead_letters")))


def headed(title: str, table: Table) -> None:
    """Print a table under its title."""
    say.print(f"\n{title}", style="bold")
    say.print(table)


def busiest(views: Sequence[dict[str, Any]], top: int = 3) -> Table:
    """Return the pages with the most views of each window."""
    shown = Table(
        "window (UTC)", "views", *(f"{place}. page" for place in ("1", "2", "3")[:top]), box=None
    )
    for start in sorted({row["window"]["start"] for row in views}):
        rows = sorted(
            (row for row in views if row["window"]["start"] == start), key=lambda row: -row["views"]
        )
        pages = [f"{row['page']} ({row['views']:,}, {row['mean_ms']:.0f} ms)" for row in rows[:top]]
        end = rows[0]["window"]["end"]
        shown.add_row(
            f"{start:%H:%M} - {end:%H:%M}", f"{sum(row['views'] for row in rows):,}", *pages
        )
    return shown


def account(
    views: Sequence[dict[str, Any]],
    late: Sequence[dict[str, Any]],
    ledger: Sequence[Sent],
    summary: dict[str, Any],
) -> Table:
    """Return the account of the records.

    Each that was sent is in exactly one of the tables, or in a window that is still open.
    """
    counted = sum(row["views"] for row in views)
    still_open = summary["rows_in"] - counted - summary["late"] - summary["dead"]
    shown = Table("where", Column("rows", justify="right"), "", box=None)
    shown.add_row("sent", f"{len(ledger):,}", "acknowledged by the broker")
    shown.add_row("read", f"{summary['rows_in']:,}", f"in {summary['batches']} micro-batches")
    shown.add_row("= counted", f"{counted:,}", f"in {len(views):,} rows of the views table")
    oldest = max((row["watermark"] - row["event_time"] for row in late), default=timedelta())
    shown.add_row(
        "+ late",
        f"{summary['late']:,}",
        f"kept in late_rows; the latest by {oldest.seconds / 3600:.1f} hours",
    )
    shown.add_row("+ dead", f"{summary['dead']:,}", "kept in dead_letters, with the reason")
    shown.add_row("+ open", f"{still_open:,}", "in windows that the watermark has not passed yet")
    again = sum(sent.click.duplicate for sent in ledger)
    shown.add_row(
        "duplicates",
        f"{again:,}",
        "of these were sent twice by their producer; this job counts views as sent",
    )
    return shown


def dead_letters(dead: Sequence[dict[str, Any]]) -> Table:
    """Return one dead letter for each reason."""
    shown = Table("rows", "reason", "value", box=None)
    counts = Counter(row["reason"] for row in dead)
    for reason, number in counts.most_common(8):
        value = next(row["value"] for row in dead if row["reason"] == reason)
        text = bytes(value or b"").decode("utf-8", "backslashreplace")
        shown.add_row(str(number), str(reason), text if len(text) <= 44 else f"{text[:41]}...")
    return shown


def farewell(places: Places) -> None:
    """Say where things are and what to try."""
    tables = places.root / "tables"
    job = "jobs/page_views.py --set window.kind=hopping --set window.hop='10 seconds'"
    say.print(
        f"Tables: {tables}/views, late_rows, dead_letters. Log of the job: "
        f"{places.root / 'job.log'}",
        soft_wrap=True,
    )
    say.print("\nTry next:", style="bold")
    for line in (
        "  . .venv/bin/activate",
        '  python -c "import pyarrow; from deltalake import DeltaTable, QueryBuilder; '
        f"views = QueryBuilder().register('views', DeltaTable('{tables}/views')); "
        "print(pyarrow.table(views.execute('select * from views').read_all()).to_pandas())\"",
        "  make broker PORT=9092      # in another terminal; and then, for the job below:",
        "  tidegate produce clicks --made-up 5000 --create 4",
        "  spark-submit --properties-file conf/spark-defaults.conf --jars '.jars/spark/*.jar' "
        f"{job}",
    ):
        say.print(line, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
