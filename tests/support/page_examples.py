"""The examples of a page, run as a reader runs them: files, commands, and one Python session.

A fenced block with a title, such as ```python title="views.py", is a file. It is written to the
reader's folder, where the commands of the page's console blocks run, each as a process of its own.
Python blocks without a title are typed into one session, as in a notebook; they do not see the
names of files.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

READERS = "localhost:9092"
"""The broker of the pages."""
READERS_FOLDER = "/tmp/tidegate"
"""The folder of tables that pages name by an absolute path."""
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
_TITLE = re.compile(r'title="([^"]+)"')
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.M)
_SET_UP = re.compile(r"(git clone|pip install|export|\. )")
"""Commands that prepare a reader's environment, which the tests have."""
_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. title: the name of the file, if it is one."""

    kind: str
    title: str | None
    body: str


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, without the indentation of lists, tabs and notes."""
    found = []
    for fence in _FENCE.finditer(text):
        title = _TITLE.search(fence["info"])
        body = textwrap.dedent(fence["body"])
        found.append(Block(fence["kind"], title[1] if title else None, body))
    return found


def names_files(text: str) -> bool:
    """Return whether a page has files, and so commands that a reader runs."""
    return any(block.title for block in blocks(text))


def commands(body: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that the page shows."""
    return [(found[1].replace("\\\n", " "), found[2]) for found in _COMMAND.finditer(body)]


def answers(example: str) -> Iterator[tuple[str, object]]:
    """Yield the expressions that an example shows an answer of, in a comment on their line."""
    lines = example.splitlines()
    for statement in ast.parse(example).body:
        comment = lines[(statement.end_lineno or 0) - 1][statement.end_col_offset :].strip()
        if isinstance(statement, ast.Expr) and comment.startswith("# "):
            yield ast.unparse(statement), ast.literal_eval(comment.removeprefix("# "))


def as_shown(line: str) -> re.Pattern[str]:
    """Return the pattern of an output line: durations can differ, and ... matches any text."""
    masked = re.sub(r"\b[\d.]+ s\b", "SECONDS s", line.strip())
    return re.compile(re.escape(masked).replace("SECONDS", r"[\d.]+").replace(r"\.\.\.", ".*"))


@dataclass
class Reader:
    """Somebody who follows a page in a fresh folder.

    outputs: what each command printed, by command.
    """

    folder: Path
    servers: str
    outputs: dict[str, str] = field(default_factory=dict)
    _session: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})

    def follow(self, page: str, text: str) -> None:
        """Run the examples of a page in its order; an AssertionError names one that fails."""
        page_blocks = blocks(text)
        with_commands = names_files(text)
        run_later = "\n".join(block.body for block in page_blocks if block.kind == "console")
        tables = self.folder / "tables"
        session_number = 0
        for block in page_blocks:
            body = block.body.replace(READERS, self.servers)
            body = body.replace(READERS_FOLDER, str(tables))
            if block.title is not None:
                self._write(block.title, body)
                if block.kind == "python" and Path(block.title).name not in run_later:
                    self._run(f"python {block.title}", "")
            elif block.kind == "python":
                session_number += 1
                self._type(f"{page}, example {session_number}", body)
            elif block.kind == "console" and with_commands:
                for command, shown in commands(body):
                    self._run(command, shown)

    def _write(self, name: str, body: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")

    def _type(self, name: str, body: str) -> None:
        exec(compile(body, name, "exec"), self._session)
        for answer, comment in answers(body):
            assert eval(answer, self._session) == comment, f"{name}: {answer}"

    def _run(self, command: str, shown: str) -> None:
        # The targets of the checkout are for other tests; a reader's project has its own Makefile.
        is_target = command.startswith("make ") and not (self.folder / "Makefile").exists()
        if _SET_UP.match(command) or is_target:
            return
        # A command that changes the folder does so for the next ones.
        where = self.folder / ".folder"
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "160",
            "TIDEGATE_KAFKA__BOOTSTRAP_SERVERS": self.servers,
        }
        done = subprocess.run(
            ["sh", "-c", f'{command}\nstatus=$?; pwd > "{where}"; exit $status'],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
        )
        print(f"$ {command}", done.stdout, done.stderr, sep="\n")
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        printed = done.stdout + done.stderr
        missing = [
            line
            for line in shown.splitlines()
            if line.strip() and not as_shown(line).search(printed)
        ]
        assert not missing, f"$ {command}\nshown: {missing}\nprinted: {printed}"
        self.outputs[command.split("  #")[0].strip()] = printed
        self.folder = Path(where.read_text(encoding="utf-8").strip())
        where.unlink()
