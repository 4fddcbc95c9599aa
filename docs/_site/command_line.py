"""The reference of the command line, generated from the commands of `tidegate`."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import typer

from tidegate.cli import app

JOB_GROUPS = ("run", "compare", "replay", "doctor")
"""The groups with one command per built-in job, whose options are the same."""
FIRST_JOB = "windows"
TYPES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    Path: "file",
    list[str]: "text",
    list[Path]: "files",
}
EXAMPLES = {
    "run": "tidegate run windows --config page_views.toml --set window.size='5 minutes'",
    "compare": "tidegate compare windows --config page_views.toml --ignore users",
    "replay": "tidegate replay windows --config page_views.toml --swap",
    "doctor": "tidegate doctor windows --config page_views.toml",
    "status": "tidegate status /data/shop --servers localhost:9092",
    "topics": "tidegate topics --servers localhost:9092",
    "produce": "tidegate produce clicks clicks.jsonl --create 4",
    "redrive": "tidegate redrive /data/shop/dead_letters --dry-run",
    "publish-changes": "tidegate publish-changes /data/users --key id --changelog /data/changes",
    "resume": "tidegate resume /data/shop/replication shop.public.customers",
    "erase": "tidegate erase /data --where user_id=alice --dry-run",
    "rescale": "tidegate rescale /data/shop/_checkpoints/windows --to 8 --dry-run",
    "sizing": "tidegate sizing tumbling --rate 1000000 --keys 100000000",
    "class-archive": "tidegate class-archive",
    "init": "tidegate init shop --name views",
}
GUIDES = {
    "run": "[Run and stop a job](../operate/run-and-stop.md)",
    "compare": "[Verify a table](../operate/reprocess.md#verify-a-table)",
    "replay": "[Reprocess with a changed job](../operate/reprocess.md)",
    "doctor": "[Preflight checks](../operate/preflight-checks.md)",
    "status": "[Monitoring](../operate/monitoring.md#status-of-all-jobs)",
    "redrive": "[Dead letters](../guides/dead-letters.md)",
    "resume": "[Replicate a database](../guides/replicate.md#paused-tables)",
    "erase": "[Erase personal data](../operate/erasure.md)",
    "rescale": "[Rescale state](../operate/rescale-state.md)",
    "sizing": "[Sizing](../operate/sizing.md)",
    "class-archive": "[Startup time](../operate/deployment.md#startup-time-appcds)",
    "publish-changes": "[Change data capture](../guides/change-data-capture.md)",
}
OWN_CODES = {
    "compare": "10 if rows differ or are missing",
    "replay": "10 if the tables differ",
    "doctor": "that of the first error",
    "status": "5 for a damaged table or checkpoint",
    "erase": "12 if something remains that identifies the subject",
    "rescale": "5 for a checkpoint that is rejected, 9 if the job was started meanwhile",
    "redrive": "11 if the topic rejects a record",
    "publish-changes": "11 if the topic rejects a record",
}
"""The exit codes that a command has in addition to 0 for success and those of all commands."""
BEFORE = """# Command line

The command `tidegate` runs the built-in jobs, and monitors, verifies and repairs jobs and their
tables. `tidegate COMMAND --help` prints the options of a command. `tidegate --version` prints the
versions of tidegate, Spark, Delta, Python and Java.

```console
$ tidegate run windows --config page_views.toml
$ tidegate status /data/shop
```

A script of a job, such as `jobs/page_views.py`, has the options of [`tidegate run`](#run).
"""


def page() -> str:
    """Return the page: an overview, then each command with its options, then the exit codes."""
    commands = _commands()
    parts = [BEFORE, "| command | purpose |", "|---|---|"]
    parts += [f"| [`{name}`](#{name}) | {_summary(command)} |" for name, command in commands]
    parts += ["", *(_section(name, command) for name, command in commands)]
    parts.append("## Exit codes\n\n<!-- exit codes -->\n")
    return "\n".join(parts)


def _commands() -> list[tuple[str, Any]]:
    """Return each command by name, groups of jobs first."""
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    return [(name, commands.pop(name)) for name in JOB_GROUPS] + list(commands.items())


def _summary(command: Any) -> str:
    return _cell((command.help or "").strip().split("\n\n")[0])


def _section(name: str, command: Any) -> str:
    is_group = name in JOB_GROUPS
    usage = f"tidegate {name} JOB [OPTIONS]" if is_group else f"tidegate {_usage(name, command)}"
    lines = [f"## {name}\n", f"{(command.help or '').strip()}\n"]
    lines.append(f"```console\n$ {EXAMPLES[name]}\n```\n")
    lines.append(f"Usage: `{usage}`\n")
    if is_group:
        jobs = ", ".join(f"`{job}`" for job in command.commands)
        lines.append(f"Jobs: {jobs}.\n")
    if is_group and name != "run":
        lines.append("The options are those of [`run`](#run).\n")
    else:
        lines += _parameters(command.commands[FIRST_JOB] if is_group else command)
    codes = OWN_CODES.get(name)
    if codes is not None:
        lines.append(f"Exit code: 0, {codes}, or one of the [others](#exit-codes).\n")
    if name in GUIDES:
        lines.append(f"See also: {GUIDES[name]}.\n")
    return "\n".join(lines)


def _usage(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    places = [
        each.name.upper() + ("..." if each.nargs == -1 or each.multiple else "")
        for each in arguments
    ]
    words = [
        place if each.required else f"[{place}]"
        for place, each in zip(places, arguments, strict=True)
    ]
    return " ".join([name, *words, "[OPTIONS]"])


def _parameters(command: Any) -> Iterator[str]:
    yield "| argument or option | value | default | meaning |\n|---|---|---|---|"
    for each in command.params:
        if each.name == "help" or each.hidden:
            continue
        is_argument = each.param_type_name == "argument"
        label = each.name.upper() if is_argument else ", ".join(each.opts)
        yield (f"| `{label}` | {_value(each)} | {_default(each)} | {_cell(each.help or '')} |")
    yield ""


def _value(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    if parameter.metavar:
        return f"`{parameter.metavar}`"
    if annotation is bool:
        return "flag"
    if typing.get_origin(annotation) is Literal:
        return ", ".join(f"`{each}`" for each in typing.get_args(annotation))
    return TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)
    if parameter.default in (None, False, True, [], ()):
        return ""
    return f"`{parameter.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
