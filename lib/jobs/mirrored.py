"""[mirror] of the job of windows: a table of PostgreSQL that is kept in step with them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from pyspark.sql import DataFrame

from ..errors import ConfigError, TidegateError
from ..runtime.config import OptionValue, Section
from ..runtime.config.secrets import resolved
from ..sinks import Mapped, Mirror, Sink
from ..stores import PostgresStore

BOUNDS = ("window_start", "window_end")
"""The columns that a mirrored table has in place of `window`."""


class MirrorSection(Section):
    """[mirror]: a table of PostgreSQL with a row for each window and its by columns."""

    table: str = Field(description="its name, with a schema before it or not")
    host: str = "localhost"
    port: int = Field(default=5432, ge=1, le=65_535)
    database: str = "postgres"
    user: str = "postgres"
    password: OptionValue | None = Field(default=None, description="env:NAME or file:PATH")
    tls: bool = Field(default=False, description="by TLS alone, with the server checked")
    certificates: str | None = Field(
        default=None, description="a file of the authorities that the server is checked by"
    )

    def sink(self, path: str, by: Sequence[str]) -> Sink:
        """Return the sink of final windows, with its secret read from where it is kept.

        path: the table of the batches that the store has.
        """
        given = self.model_dump()
        if self.password is not None:
            given |= resolved({"password": str(self.password)}, "mirror")
        try:
            store = PostgresStore(**given)
        except TidegateError as error:
            raise ConfigError(f"[mirror]: {error.given}", error.allowed, error.hint) from None
        return Mapped(rows=_flat, sink=Mirror(path, store=store, key=[*BOUNDS, *by]))


def _flat(rows: DataFrame) -> DataFrame:
    """Put the two ends of the window in its place, so that each is a column of its own."""
    values = [f"`{name}`" for name in rows.columns if name != "window"]
    start, end = BOUNDS
    return rows.selectExpr(f"window.start AS {start}", f"window.end AS {end}", *values)
