"""`python3 -m bootstrap`: set up this checkout; less than a second if it is set up already.

Steps with a current stamp in `.venv` or `.jars` are skipped. Exit codes: 0 done, 3 no supported
Python, 4 no supported Java, 5 not enough disk space, 6 packages not installed, 7 jars not fetched,
8 a jar differs from its lock file, 130 interrupted. Environment: PYTHON (the interpreter to use),
INSTALL_JAVA=1 (install a missing Java), IVY_SETTINGS (an Ivy settings file for other repositories).
With `--lock-jars` the resolved jars are written to the lock files."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import jars, packages
from .machine import SetupError, find_python, require_disk, require_java

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / ".run" / "setup.log"


def fingerprint(*names: str) -> str:
    """Return a hash of files of the project, and of its path.

    An editable install stores the path, so a moved checkout must be set up again."""
    parts = [str(ROOT).encode(), *((ROOT / name).read_bytes() for name in names)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


class Step:
    """A step of the setup; it is done if its stamp has the fingerprint of its inputs."""

    def __init__(
        self, title: str, stamp: str, inputs: tuple[str, ...], action: Callable[[], None]
    ) -> None:
        self.title = title
        self.stamp = ROOT / stamp
        self.action = action
        self.fingerprint = fingerprint(*inputs)
        self.is_required = False

    def require_run(self) -> None:
        """Run the step although its stamp is current."""
        self.is_required = True

    def is_done(self) -> bool:
        """Return whether the step can be skipped."""
        if self.is_required or not (ROOT / ".venv" / "bin" / "python").exists():
            return False
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self.fingerprint

    def run(self, number: str) -> None:
        """Run the step, print its duration, and write its stamp."""
        print(f"[{number}] {self.title} ...", end=" ", flush=True)
        start = time.monotonic()
        try:
            self.action()
        except BaseException:
            print("failed", flush=True)
            raise
        self.stamp.parent.mkdir(exist_ok=True)
        self.stamp.write_text(self.fingerprint, encoding="utf-8")
        print(f"{time.monotonic() - start:.0f} s", flush=True)


@dataclass(frozen=True)
class JarSet:
    """Jars with one lock file: configurations of an ivy.xml, with a subfolder each."""

    title: str
    ivy: str
    lock: str
    folder: str
    confs: tuple[str, ...]

    def step(self, python: Path, relock: bool) -> Step:
        """Return the step that fetches and verifies the jars, or locks the fetched ones."""
        folder, lock = ROOT / self.folder, ROOT / self.lock

        def fetch() -> None:
            jars.retrieve(ROOT / self.ivy, folder, self.confs, python, LOG)
            if relock:
                jars.write_lock(folder, lock)
            jars.verify(folder, lock)

        step = Step(self.title, f"{self.folder}/.stamp", (self.ivy, self.lock), fetch)
        # A stamp does not detect a removed jar.
        if relock or not jars.complete(folder, lock):
            step.require_run()
        return step


JAR_SETS = (
    JarSet(
        "fetching and verifying jars", "conf/ivy.xml", "jars.lock", ".jars", ("spark", "broker")
    ),
    JarSet(
        "fetching and verifying jars of the tests",
        "tests/support/ivy.xml",
        "tests/support/jars.lock",
        ".jars/tests",
        ("connect",),
    ),
)


def steps(relock: bool) -> list[Step]:
    """Return the steps in their order."""
    python = ROOT / ".venv" / "bin" / "python"

    def venv() -> None:
        packages.make_venv(ROOT, find_python(os.environ.get("PYTHON")), LOG)

    def locked() -> None:
        packages.install_locked(ROOT / "requirements.lock", python, LOG)

    def project() -> None:
        packages.install_project(ROOT, python, LOG)

    lock = ("requirements.lock",)
    project_files = ("pyproject.toml", "lib/__init__.py", *lock)
    return [
        Step("making .venv", ".venv/.stamp-venv", (), venv),
        Step("installing locked packages", ".venv/.stamp-packages", lock, locked),
        Step("installing tidegate", ".venv/.stamp-tidegate", project_files, project),
        *[jar_set.step(python, relock) for jar_set in JAR_SETS],
    ]


def main(arguments: list[str]) -> int:
    """Run the pending steps, and return the exit code."""
    try:
        set_up(relock="--lock-jars" in arguments)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


def set_up(*, relock: bool) -> None:
    """Run the pending steps."""
    if os.environ.get("PYTHON"):
        find_python(os.environ["PYTHON"])
    require_java()
    plan = steps(relock)
    todo = [step for step in plan if not step.is_done()]
    if todo:
        require_disk(ROOT)
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_bytes(b"")
    for step in todo:
        step.run(f"{plan.index(step) + 1}/{len(plan)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
