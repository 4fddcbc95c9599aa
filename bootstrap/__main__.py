"""`python3 -m bootstrap`: set up this checkout, or find in less than a second that it is set up.

Steps that a stamp in `.venv` or `.jars` says are done are skipped. Exit codes: 0 done, 3 no fitting
Python, 4 no fitting Java, 5 too little disk, 6 packages not installed, 7 jars not fetched, 8 a jar
is not what jars.lock says, 130 interrupted. Environment: PYTHON the interpreter to use,
INSTALL_JAVA=1 to install a missing Java, IVY_SETTINGS a settings file of your own repositories.
With `--lock-jars` the jars that Ivy resolves become jars.lock."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import jars, packages
from .machine import SetupError, find_python, require_disk, require_java

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / ".run" / "setup.log"


def fingerprint(*names: str) -> str:
    """Return a hash of some files of the project and of where it lies, which an editable install
    remembers."""
    parts = [str(ROOT).encode(), *((ROOT / name).read_bytes() for name in names)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


class Step:
    """One thing to do, done already when its stamp holds the fingerprint of what it is made
    from."""

    def __init__(
        self, title: str, stamp: str, inputs: tuple[str, ...], action: Callable[[], None]
    ) -> None:
        self.title, self.stamp, self.action = title, ROOT / stamp, action
        self.wanted = fingerprint(*inputs)

    def done(self) -> bool:
        if not (ROOT / ".venv" / "bin" / "python").exists():
            return False
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self.wanted

    def run(self, number: str) -> None:
        print(f"[{number}] {self.title} ...", end=" ", flush=True)
        start = time.monotonic()
        try:
            self.action()
        except BaseException:
            print("failed", flush=True)
            raise
        self.stamp.parent.mkdir(exist_ok=True)
        self.stamp.write_text(self.wanted, encoding="utf-8")
        print(f"{time.monotonic() - start:.0f} s", flush=True)


def steps(relock: bool) -> list[Step]:
    """Return the steps in their order."""
    inside = ROOT / ".venv" / "bin" / "python"

    def venv() -> None:
        packages.make_venv(ROOT, find_python(os.environ.get("PYTHON")), LOG)

    def fetch() -> None:
        jars.retrieve(ROOT, inside, LOG)
        if relock:
            jars.write_lock(ROOT / ".jars", ROOT / "jars.lock")
        jars.verify(ROOT / ".jars", ROOT / "jars.lock")

    project = ("pyproject.toml", "lib/__init__.py", "requirements.lock")
    return [
        Step("making .venv", ".venv/.stamp-venv", (), venv),
        Step(
            "installing locked packages",
            ".venv/.stamp-packages",
            ("requirements.lock",),
            lambda: packages.install_locked(ROOT, inside, LOG),
        ),
        Step(
            "installing tidegate",
            ".venv/.stamp-tidegate",
            project,
            lambda: packages.install_project(ROOT, inside, LOG),
        ),
        Step("fetching and verifying jars", ".jars/.stamp", ("conf/ivy.xml", "jars.lock"), fetch),
    ]


def main(arguments: list[str]) -> int:
    """Run the steps that are not done."""
    relock = "--lock-jars" in arguments
    try:
        if os.environ.get("PYTHON"):
            find_python(os.environ["PYTHON"])
        require_java()
        plan = steps(relock)
        todo = [step for step in plan if not step.done()]
        if plan[-1] not in todo and (
            relock or not jars.complete(ROOT / ".jars", ROOT / "jars.lock")
        ):
            todo.append(plan[-1])
        if todo:
            require_disk(ROOT)
            LOG.parent.mkdir(exist_ok=True)
            LOG.write_bytes(b"")
        for step in todo:
            step.run(f"{plan.index(step) + 1}/{len(plan)}")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
