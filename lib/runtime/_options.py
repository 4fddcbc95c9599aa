"""The options that the command lines of all jobs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path | None, typer.Option(help="TOML file.", show_default="conf/jobs/<job>.toml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value, any number of times.")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume-from-table",
        help="The checkpoint is lost: a new one goes on where the target ends.",
    ),
]
Backlog = Annotated[
    bool,
    typer.Option(
        "--backlog",
        help="A new checkpoint works off what waits as one batch first, however little it is.",
    ),
]
Recreate = Annotated[
    list[str] | None,
    typer.Option(
        help="A step whose table is gone and begins anew, empty; or 'all' of them. "
        "Or a new output of an old checkpoint, which begins with the next batch."
    ),
]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Show the merged configuration and end.")
]
SummaryFile = Annotated[
    Path | None, typer.Option(help="Write the run's numbers to this JSON file.")
]
ReportFile = Annotated[
    Path | None,
    typer.Option(help="Keep this HTML page of the run: its numbers, charts and dead letters."),
]
ReplayLate = Annotated[
    bool, typer.Option("--replay-late", help="Merge the late table into the windows, and end.")
]
Doctor = Annotated[
    bool,
    typer.Option("--doctor", help="Check what a start would check, show what was found, and end."),
]
Compare = Annotated[
    bool,
    typer.Option("--compare", help="Compare the target with the batch over its log, and end."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="With --compare and --replay: a column that is not compared; repeatable."),
]
Replays = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="Run the job over its log again, into tables beside its own, compare them, and end.",
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        help="With --replay: begin at this time of the records (2026-03-02T09:00:00Z), or at "
        "offsets (topic:partition:offset, repeatable; or JSON).",
    ),
]
Switches = Annotated[
    bool, typer.Option("--switch", help="Put the replay's tables in the place of the job's.")
]
Back = Annotated[
    bool, typer.Option("--back", help="With --switch: put the tables of before in place again.")
]
Json = Annotated[
    bool, typer.Option("--json", help="With --replay: print what was compared as JSON.")
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Spark's warnings, and whole traces of errors.")
]
