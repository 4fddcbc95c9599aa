"""The decisions of the setup: Python, Java, disk space, jars, and failures of pip."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import jars, machine, packages
from bootstrap.__main__ import ROOT, SPARK_VERSIONS, JarSet, jar_sets, package_locks
from bootstrap.machine import SetupError
from tidegate.spark.jars import project_root
from tidegate.versions import SUPPORTED_SPARK, spark_version


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_of_java_is_read(banner: str, major: int | None) -> None:
    assert machine.java_major(banner) == major


@pytest.mark.parametrize(
    ("java", "major", "message"),
    [
        (
            "java",
            None,
            "Java is not installed; Spark requires Java 17 or 21. Install it with:\n  get java",
        ),
        ("java", 11, "Java 11 (java) is not supported"),
        ("java", 25, "Java 25 (java) is not supported"),
        ("/opt/jdk/bin/java", 11, "It is in JAVA_HOME"),
    ],
)
def test_an_unsupported_java_is_reported_with_a_fix(
    java: str, major: int | None, message: str
) -> None:
    assert message in (machine.java_problem(java, major, "get java") or "")


@pytest.mark.parametrize("major", [17, 21])
def test_a_supported_java_is_accepted(major: int) -> None:
    assert machine.java_problem("java", major, None) is None


@pytest.mark.parametrize(
    ("managers", "root", "command"),
    [
        ({"apt-get"}, False, "sudo sh -c 'apt-get update && "),
        ({"apt-get"}, True, "sh -c 'apt-get update && "),
        ({"dnf"}, True, "dnf install -y java-21-openjdk-headless"),
        ({"brew"}, False, "brew install openjdk@17 && "),
    ],
)
def test_the_command_that_installs_java_fits_the_machine(
    managers: set[str], root: bool, command: str
) -> None:
    assert (machine.java_install_command(managers, root) or "").startswith(command)


def test_without_a_package_manager_there_is_no_install_command() -> None:
    assert machine.java_install_command(set(), root=True) is None


def test_an_interpreter_that_does_not_run_raises() -> None:
    with pytest.raises(
        SetupError,
        match=r"no-such-python does not run; tidegate requires Python 3\.11, 3\.12, 3\.13",
    ):
        machine.find_python("no-such-python")


def test_an_unsupported_python_is_replaced_by_one_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {sys.executable: (3, 9), "python3.12": (3, 12)}
    monkeypatch.setattr(machine, "python_version", versions.get)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{Path(name).name}")
    assert machine.find_python(None) == "/bin/python3.12"


def test_a_full_disk_raises(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"has 1\.0 GB free; the setup requires 3 GB") as error:
        machine.require_disk(tmp_path, free=10**9)
    assert error.value.code == machine.DISK_FULL


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            "WARNING: Retrying after connection broken by 'ConnectTimeoutError(...timed out.'",
            "does not respond",
        ),
        (
            "ERROR: Could not install packages: [Errno 28] No space left on device",
            "the disk is full",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "differs from requirements.lock",
        ),
        ("ERROR: No matching distribution found for nothing==1", "does not have a locked version"),
        ("ERROR: something else", "pip failed"),
    ],
)
def test_the_cause_of_a_pip_failure_is_reported(output: str, cause: str) -> None:
    assert cause in packages.cause(output)


@pytest.mark.parametrize("jar_set", jar_sets(spark_version()), ids=lambda jar_set: jar_set.folder)
def test_the_jars_match_the_lock_file(jar_set: JarSet) -> None:
    root = project_root()
    expected = jars.locked(root / jar_set.lock, jar_set.spark)
    assert jars.digests(root / jar_set.folder) == expected


def test_the_setup_has_jars_and_packages_for_each_supported_version_of_spark() -> None:
    assert SPARK_VERSIONS == SUPPORTED_SPARK
    for spark in SUPPORTED_SPARK:
        names = {Path(path).name for path in jars.locked(ROOT / "jars.lock", spark)}
        assert jars.versioned_names(ROOT / "conf" / "ivy.xml", spark) <= names
        assert f"delta-spark_{spark}_2.13-4.4.0.jar" in names
        pins = "".join((ROOT / lock).read_text(encoding="utf-8") for lock in package_locks(spark))
        assert pins.count("\npyspark==") == 1
        assert f"\npyspark=={spark}." in pins


@pytest.fixture
def two_jars(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder of two jars, and their lock file."""
    for name in ("a.jar", "b.jar"):
        (tmp_path / "jars" / "spark").mkdir(parents=True, exist_ok=True)
        (tmp_path / "jars" / "spark" / name).write_bytes(name.encode() * 100)
    jars.write_lock(tmp_path / "jars", tmp_path / "jars.lock")
    return tmp_path / "jars", tmp_path / "jars.lock"


def test_a_corrupt_jar_is_removed_from_the_folder_and_the_cache(
    two_jars: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, lock = two_jars
    jar = folder / "spark" / "a.jar"
    damaged = bytearray(jar.read_bytes())
    damaged[7] ^= 1
    jar.write_bytes(damaged)
    cached = tmp_path / "cache" / "org" / "a.jar"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(damaged)
    with pytest.raises(SetupError, match=r"were removed: spark/a\.jar") as error:
        jars.verify(folder, lock, tmp_path / "cache")
    assert error.value.code == machine.WRONG_JAR
    assert not jar.exists()
    assert not cached.exists()
    assert (folder / "spark" / "b.jar").exists()


def test_a_missing_jar_is_reported(two_jars: tuple[Path, Path]) -> None:
    folder, lock = two_jars
    (folder / "spark" / "b.jar").unlink()
    assert not jars.complete(folder, lock)
    with pytest.raises(SetupError, match=r"did not fetch these jars of jars\.lock: spark/b\.jar"):
        jars.verify(folder, lock)


def test_a_jar_of_an_earlier_version_is_removed(two_jars: tuple[Path, Path]) -> None:
    folder, lock = two_jars
    (folder / "spark" / "old-1.0.jar").write_bytes(b"old")
    jars.verify(folder, lock)
    assert sorted(jars.locked(lock)) == [
        f"spark/{jar.name}" for jar in sorted((folder / "spark").iterdir())
    ]


def test_a_lock_file_has_the_jars_of_several_versions_of_spark(
    two_jars: tuple[Path, Path],
) -> None:
    folder, lock = two_jars
    for spark in ("4.1", "4.2"):
        (folder / "spark" / f"delta_{spark}.jar").write_bytes(spark.encode())
        jars.write_lock(folder, lock, spark, {f"delta_{spark}.jar"})
        (folder / "spark" / f"delta_{spark}.jar").unlink()
    common = {"spark/a.jar", "spark/b.jar"}
    assert set(jars.locked(lock, "4.1")) == {*common, "spark/delta_4.1.jar"}
    assert set(jars.locked(lock, "4.2")) == {*common, "spark/delta_4.2.jar"}
    assert "  spark-4.1/delta_4.1.jar\n" in lock.read_text(encoding="utf-8")


def test_the_lock_file_has_the_format_of_sha256sum(two_jars: tuple[Path, Path]) -> None:
    folder, lock = two_jars
    digest = hashlib.sha256((folder / "spark" / "a.jar").read_bytes()).hexdigest()
    assert lock.read_text(encoding="utf-8").splitlines()[0] == f"{digest}  spark/a.jar"


def test_the_setup_exits_with_the_code_of_its_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bootstrap"],
        cwd=project_root(),
        env={"JAVA_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == machine.WRONG_JAVA
    assert done.stderr.startswith(f"setup: {tmp_path}/bin/java does not run; Spark requires Java")
    assert "Traceback" not in done.stderr
