"""The tables of a job by name: each is made known in a catalog once it is there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from ...commit.named import location, make_known
from ...errors import ArgumentError, TableError
from ...jvm import delta_state
from ..job import Job
from ..locations import whole
from .places import steps


class Names:
    """Looks after the names of a job's tables; one of a job without a catalog does nothing."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._spark = spark
        self._catalog = job.catalog
        self._waiting = {} if job.catalog is None else names(job.catalog, steps(job))

    def require(self) -> str:
        """Refuse a name that another table has, and a schema that is not there; say what was seen.

        Raises:
            TableError.
        """
        if self._catalog is None:
            return "no catalog is given"
        if not self._spark.catalog.databaseExists(self._catalog):
            raise TableError(
                f"there is no schema {self._catalog} in the session's catalogs.",
                "a schema that is there.",
                f"CREATE SCHEMA {self._catalog}",
            )
        known = {name: location(self._spark, name) for name in self._waiting}
        for name, path in self._waiting.items():
            found = known[name]
            if found is not None and whole(found) != whole(path):
                raise TableError(
                    f"{name} is the table at {found}, and the job's is at {path}.",
                    "a schema in which the names of the job's tables are free, or theirs.",
                    f"another schema; or DROP TABLE {name}, if nobody else needs the name.",
                )
        self._waiting = {name: path for name, path in self._waiting.items() if known[name] is None}
        return f"{self._catalog} has the names of {len(known) - len(self._waiting)} tables"

    def look(self) -> None:
        """Make the tables that are new since the last look known by their names.

        Raises:
            TableError.
        """
        there = {
            name: path
            for name, path in self._waiting.items()
            if delta_state(self._spark, path).version >= 0
        }
        for name, path in there.items():
            make_known(self._spark, name, path)
            del self._waiting[name]


def names(catalog: str, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each table by its name: the schema, and the word that its folder makes.

    Raises:
        ArgumentError: for two tables of one name.

    >>> names("shop", {"target": "/data/views", "dead": "/data/views.dead_letters"})
    {'shop.views': '/data/views', 'shop.views_dead_letters': '/data/views.dead_letters'}
    """
    made: dict[str, str] = {}
    for path in tables.values():
        word = re.sub(r"\W", "_", whole(path).rpartition("/")[2], flags=re.ASCII)
        name = f"{catalog}.{word if not word[:1].isdigit() else f'_{word}'}"
        if whole(made.setdefault(name, path)) != whole(path):
            raise ArgumentError(
                f"{made[name]} and {path} would both be named {name}.",
                "folders whose names differ, in a job whose tables have names in a catalog.",
            )
    return made
