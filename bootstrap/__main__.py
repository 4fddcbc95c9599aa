"""`python3 -m bootstrap`: set up this checkout; less than a second if it is set up already.

Steps with a current stamp in `.venv` or `.jars` are skipped. Exit codes: 0 done, 2 an invalid
argument, 3 no supported Python, 4 no supported Java, 5 not enough disk space, 6 packages not
installed, 7 jars not fetched, 8 a jar differs from its lock file, 130 interrupted. Environment:
PYTHON (the interpreter to use), INSTALL_JAVA=1 (install a missing Java), IVY_SETTINGS (an Ivy
settings file for other repositories).

`--spark 4.1` sets up `.venv-4.1` and `.jars-4.1` for that version of Spark; the newest version has
`.venv` and `.jars`. With `--lock-jars` the resolved jars are written to the lock files."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import jars, packages
from .machine import SetupError, find_python, require_disk, require_java

ROOT = Path(__file__).resolve().parents[1]
IVY = "conf/ivy.xml"
SPARK_VERSIONS = tuple(jars.spark_versions(ROOT / IVY))
"""The supported versions of Spark, the oldest first; the last one is the default."""
LOG = ROOT / ".run" / "setup.log"


def fingerprint(*names: str) -> str:
    """Return a hash of files of the project, and of its path.

    An editable install stores the path, so a moved checkout must be set up again."""
    parts = [str(ROOT).encode(), *((ROOT / name).read_bytes() for name in names)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


class Step:
    """A step of the setup; it is done if its stamp has the fingerprint of its inputs."""

    def __init__(
        self,
        title: str,
        stamp: str,
        inputs: tuple[str, ...],
        action: Callable[[], None],
        venv: str = ".venv",
    ) -> None:
        self.title = title
        self.python = ROOT / venv / "bin" / "python"
        self.stamp = ROOT / stamp
        self.action = action
        self.fingerprint = fingerprint(*inputs)
        self.is_required = False

    def require_run(self) -> None:
        """Run the step although its stamp is current."""
        self.is_required = True

    def is_done(self) -> bool:
        """Return whether the step can be skipped."""
        if self.is_required or not self.python.exists():
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
    """Jars with one lock file: configurations of an ivy.xml, with a subfolder for each.

    spark: the version of Spark that some of the jars belong to."""

    title: str
    ivy: str
    lock: str
    folder: str
    confs: Mapping[str, str]
    spark: str = ""

    def step(self, venv: str, relock: bool) -> Step:
        """Return the step that fetches and verifies the jars, or locks the fetched ones."""
        folder, lock, ivy = ROOT / self.folder, ROOT / self.lock, ROOT / self.ivy

        def fetch() -> None:
            jars.retrieve(ivy, folder, self.confs, ROOT / venv / "bin" / "python", LOG)
            if relock:
                jars.write_lock(folder, lock, self.spark, jars.versioned_names(ivy, self.spark))
            jars.verify(folder, lock, spark=self.spark)

        step = Step(self.title, f"{self.folder}/.stamp", (self.ivy, self.lock), fetch, venv)
        # A stamp does not detect a removed jar.
        if relock or not jars.complete(folder, lock, self.spark):
            step.require_run()
        return step


def folder_of_version(name: str, spark: str) -> str:
    """Return the folder of a version of Spark: `.venv` of the default, `.venv-4.1` of another."""
    return name if spark == SPARK_VERSIONS[-1] else f"{name}-{spark}"


def jar_sets(spark: str) -> list[JarSet]:
    """Return the jars of a version of Spark, and those that only tests use."""
    return [
        JarSet(
            "fetching and verifying jars",
            IVY,
            "jars.lock",
            folder_of_version(".jars", spark),
            {f"spark-{spark}": "spark", "broker": "broker"},
            spark,
        ),
        JarSet(
            "fetching and verifying jars of the tests",
            "tests/support/ivy.xml",
            "tests/support/jars.lock",
            ".jars/tests",
            {"connect": "connect"},
        ),
    ]


def package_locks(spark: str) -> list[str]:
    """Return the lock files of the packages: of all versions of Spark, and of this one."""
    return ["requirements.lock", f"requirements-{spark}.lock"]


def steps(spark: str, relock: bool) -> list[Step]:
    """Return the steps in their order."""
    folder = folder_of_version(".venv", spark)
    python = ROOT / folder / "bin" / "python"
    locks = tuple(package_locks(spark))

    def venv() -> None:
        packages.make_venv(ROOT / folder, find_python(os.environ.get("PYTHON")), LOG)

    def locked() -> None:
        packages.install_locked([ROOT / lock for lock in locks], python, LOG)

    def project() -> None:
        packages.install_project(ROOT, python, LOG)

    project_files = ("pyproject.toml", "lib/__init__.py", *locks)
    return [
        Step(f"making {folder}", f"{folder}/.stamp-venv", (), venv, folder),
        Step("installing locked packages", f"{folder}/.stamp-packages", locks, locked, folder),
        Step("installing tidegate", f"{folder}/.stamp-tidegate", project_files, project, folder),
        *[jar_set.step(folder, relock) for jar_set in jar_sets(spark)],
    ]


def main(arguments: list[str]) -> int:
    """Run the pending steps, and return the exit code."""
    parser = argparse.ArgumentParser("python3 -m bootstrap")
    parser.add_argument("--spark", choices=SPARK_VERSIONS, default=SPARK_VERSIONS[-1])
    parser.add_argument("--lock-jars", action="store_true")
    options = parser.parse_args(arguments)
    try:
        set_up(options.spark, relock=options.lock_jars)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


def set_up(spark: str, *, relock: bool) -> None:
    """Run the pending steps."""
    if os.environ.get("PYTHON"):
        find_python(os.environ["PYTHON"])
    require_java()
    plan = steps(spark, relock)
    todo = [step for step in plan if not step.is_done()]
    if todo:
        require_disk(ROOT)
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_bytes(b"")
    for step in todo:
        step.run(f"{plan.index(step) + 1}/{len(plan)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
