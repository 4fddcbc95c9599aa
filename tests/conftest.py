"""What every test may use: the library's own fixtures, and the library as a zip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import ci_shards, hypothesis_profiles
from tests.support.http_server import WebhookServer, serve_webhook
from tests.support.postgres_server import Server, started
from tests.support.readers import assert_readers_agree_below
from tidegate.spark.jars import project_root
from tidegate.testing.child_process import SHORT_RUN_OPTIONS
from tidegate.versions import SUPPORTED_SPARK, UNSUPPORTED, installed_pyspark, is_spark_at_least

# For the session of the tests and the jobs that tests start. The second compiler costs half of the
# time of a short session, and growing the heap a tenth.
ROOMY = "-Xms1g -Xmn400m -XX:MetaspaceSize=256m"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{SHORT_RUN_OPTIONS} {ROOMY}")

pytest_plugins = ["tidegate.testing.fixtures", "tests.support.job_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--draws`, which selects the values of tests marked `draws`, and `--parts`."""
    parser.addoption(
        "--draws", choices=("short", "long"), default="short", help="how much is drawn"
    )
    parser.addoption(
        "--parts",
        type=int,
        default=1,
        help="run one part of this number of parts: the one due at this commit",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of drawn examples by `--draws`, and validate `--parts`."""
    if config.getoption("parts") < 1:
        raise pytest.UsageError("--parts takes a number from 1 on: PARTS=2 runs one half.")
    hypothesis_profiles.choose(long=config.getoption("draws") == "long")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, of the tests that -m has chosen, the parts that are not due."""
    of = config.getoption("parts")
    if of == 1:
        return
    selected = ci_shards.due(items, of, ci_shards.commit())
    left_out = set(items).difference(selected)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = selected


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test marked `draws` by its short or its long list of values, where it has any:
    it draws examples otherwise."""
    chosen = metafunc.config.getoption("draws")
    for mark in metafunc.definition.iter_markers("draws"):
        if not mark.args:
            continue
        metafunc.parametrize(mark.args[0], mark.kwargs[chosen], ids=mark.kwargs.get("ids"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test of a feature that the installed version of Spark does not support."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        if is_spark_at_least(SUPPORTED_SPARK[-1]) or UNSUPPORTED not in str(error):
            raise
        pytest.skip(f"a feature is {UNSUPPORTED} {installed_pyspark()}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module whose parameters require a newer Spark."""
    report = yield
    reason = re.search(rf"{UNSUPPORTED} .*", str(report.longrepr)) if report.failed else None
    if reason is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {reason[0]}")
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `spark` with an older version of Spark."""
    for mark in item.iter_markers("spark"):
        if not is_spark_at_least(mark.args[0]):
            pytest.skip(f"requires Spark {mark.args[0]}")


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """Refuse a module fixture that creates topics: a worker can run a module twice, and the broker
    still has the topics."""
    if "broker" in fixturedef.argnames and fixturedef.scope in ("module", "class"):
        pytest.fail(f'{fixturedef.argname} makes topics: scope="session", or a test\'s own')


READ_BY_ALL = ("commit", "engine", "joins", "operations", "sinks", "sources", "startup", "views")
"""The folders of tests after which other readers read the tables that were written."""
READ_BY_SPARK = 5
"""Spark reads the tables of one such test in five, in turn from commit to commit, because it takes
a tenth of the time of the tests; with --draws long it reads all."""


@pytest.fixture(autouse=True)
def readers_agree(request: pytest.FixtureRequest) -> Iterator[None]:
    """Require of each table that a test of these folders has written that readers agree on it."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    is_read = folder in READ_BY_ALL and "tmp_path" in request.fixturenames
    root: Path | None = request.getfixturevalue("tmp_path") if is_read else None
    has_session = is_read and "spark" in request.fixturenames
    spark: SparkSession | None = request.getfixturevalue("spark") if has_session else None
    yield
    if root is not None:
        is_long = request.config.getoption("draws") == "long"
        is_due = ci_shards.is_due(request.node.nodeid, READ_BY_SPARK, ci_shards.commit())
        assert_readers_agree_below(root, spark, compares_spark=is_long or is_due)


@pytest.fixture
def webhook_server() -> Iterator[WebhookServer]:
    """An address of this machine that is posted to, and what it hears."""
    with serve_webhook() as found:
        yield found


@pytest.fixture(scope="module")
def single_partition(spark: SparkSession) -> Iterator[None]:
    """Use one partition, since several joins in one query have many state stores."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL of this machine, one for all tests of the run."""
    with started() as server:
        yield server


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tidegate` as a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(project_root()),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.glob("tidegate-*.whl")
    return built


@pytest.fixture(scope="session")
def shipped(wheel: Path) -> Path:
    """`tidegate` as a zip for --py-files: Spark's workers import from .zip, not from .whl, though a
    wheel is one."""
    return Path(shutil.copy(wheel, wheel.with_name("tidegate.zip")))
