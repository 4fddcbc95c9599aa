"""The expected rows of each query, computed from the topics in pandas, and the actual rows.

Rows are compared by their number and by a sum of their hashes, which ignores their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from deltalake import DeltaTable
from pyarrow import compute

from benchmarks.peers.topics import CHANGES, CLICKS, CLOSING, PAIR, read_topic
from benchmarks.support.order_table import COLUMNS

# The relative error of approx_count_distinct, with a margin for the number of windows.
_ERROR = 0.016 * 1.25
_GAP_MS = 30_000
SLOW_MS, WITHIN_MS = 200, 60_000


@dataclass(frozen=True)
class Query:
    """A query: its columns by their names in Spark tables, and its expected rows.

    A column has two names where the library and plain PySpark differ."""

    columns: Mapping[str, str]
    expected: Callable[[str], pd.DataFrame]
    """Computes the rows from the topics of a broker."""
    is_table: bool = False
    """Whether the rows are a table by key, so that a topic has changes of them."""

    @property
    def names(self) -> list[str]:
        """The columns of the rows."""
        return list(dict.fromkeys(self.columns.values()))


def _clicks(servers: str) -> pd.DataFrame:
    return read_topic(servers, CLICKS)


def _placed(servers: str, panes: int) -> pd.DataFrame:
    """Return each click once for each of its windows, of a number of panes of 10 s."""
    clicks = _clicks(servers).rename(columns={"page": "key"})
    first = clicks["ts"] // 10_000 * 10_000
    placed = [clicks.assign(start=first - 10_000 * pane) for pane in range(panes)]
    rows = pd.concat(placed)
    return rows.assign(end=rows["start"] + 10_000 * panes)


def _windows(servers: str, panes: int) -> pd.DataFrame:
    placed = _placed(servers, panes).groupby(["key", "start", "end"])
    return placed.agg(views=("ms", "size"), total_ms=("ms", "sum")).reset_index()


def _sessions(servers: str) -> pd.DataFrame:
    clicks = _clicks(servers).sort_values(["user", "ts"])
    apart = clicks["ts"].diff() > _GAP_MS
    begins = apart | (clicks["user"] != clicks["user"].shift())
    runs = clicks.groupby(begins.cumsum())
    results = runs.agg(
        key=("user", "first"),
        start=("ts", "min"),
        end=("ts", "max"),
        views=("ms", "size"),
        total_ms=("ms", "sum"),
    )
    return results.assign(end=results["end"] + _GAP_MS)


def _distinct(servers: str) -> pd.DataFrame:
    placed = _placed(servers, 1).groupby(["key", "start"])
    return placed.agg(users=("user", "nunique")).reset_index()


def _pairs(servers: str) -> pd.DataFrame:
    (impressions, clicks) = (read_topic(servers, name) for name in PAIR)
    clicks = clicks.rename(columns={"ts": "click_ts"})
    pairs = impressions.merge(clicks, on="id")
    return pairs[(pairs["click_ts"] - pairs["ts"]).between(0, 60_000)]


def _enriched(servers: str) -> pd.DataFrame:
    clicks = _clicks(servers)
    clicks = clicks[clicks["user"] != CLOSING]
    number = clicks["user"].str.removeprefix("user-").astype(int)
    return clicks.assign(plan="plan-" + (number % 7).astype(str))


def _slower(servers: str) -> pd.DataFrame:
    """Return each slow click with the next slower click of the user within a minute."""
    clicks = _clicks(servers).rename(columns={"user": "key", "ts": "start"})
    slow = clicks[clicks["ms"] > SLOW_MS].sort_values(["key", "start", "ms"])
    keys, starts, times = (slow[name].to_numpy() for name in ("key", "start", "ms"))
    first, after = [], []
    for one in range(len(slow)):
        for other in range(one + 1, len(slow)):
            if keys[other] != keys[one] or starts[other] - starts[one] >= WITHIN_MS:
                break
            if times[other] > times[one]:
                first.append(one)
                after.append(other)
                break
    results = slow.iloc[first][["key", "start", "ms"]]
    return results.assign(end=starts[after], slower=times[after])


def _current(servers: str) -> pd.DataFrame:
    changes = read_topic(servers, CHANGES, keyed=True)
    return pd.DataFrame(changes.loc[changes["op"] != "d", "after"].tolist())


_WINDOW = {"window.start": "start", "window.end": "end", "views": "views", "total_ms": "total_ms"}
_SESSION = {"session_window.start": "start", "session_window.end": "end"}
_JOINED = {"ts_left": "ts", "ts_right": "click_ts", "position": "position", "ms": "ms"}
_PLAIN_JOINED = {"ts": "ts", "click_ts": "click_ts", "click_position": "position", "click_ms": "ms"}
_SEQUENCE = {"user": "key", "started": "start", "ended": "end", "ms": "ms", "slower": "slower"}
_TABLE = [column.split()[0] for column in COLUMNS.split(", ")]
QUERIES: dict[str, Query] = {
    "tumbling": Query({"page": "key", **_WINDOW}, partial(_windows, panes=1)),
    "hopping": Query({"page": "key", **_WINDOW}, partial(_windows, panes=6)),
    "session": Query({"user": "key", **_WINDOW, **_SESSION}, _sessions),
    "distinct": Query({"page": "key", "window.start": "start", "users": "users"}, _distinct),
    "join": Query({"id": "id", **_JOINED, **_PLAIN_JOINED}, _pairs),
    "enrichment": Query({name: name for name in ("ts", "page", "user", "ms", "plan")}, _enriched),
    "sequence": Query(_SEQUENCE, _slower),
    "changelog": Query({name: name for name in _TABLE}, _current, is_table=True),
}


def read_delta_rows(query: Query, path: Path) -> pd.DataFrame:
    """Return the rows of a Delta table under the names of the query."""
    table = DeltaTable(path).to_pyarrow_table().flatten()
    if query.is_table and "deleted" in table.column_names:
        table = table.filter(compute.invert(table["deleted"]))
    here = [name for name in query.columns if name in table.column_names]
    rows: pd.DataFrame = table.select(here).to_pandas().rename(columns=query.columns)
    return rows


def normalized(query: Query, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows in the compared form: times in ms since 1970, without the closing clicks."""
    if rows.empty:
        return pd.DataFrame(columns=query.names)
    rows = rows[query.names]
    for name in {"key", "user"} & set(query.names):
        rows = rows[rows[name] != CLOSING]
    return rows.assign(**{name: _ms(rows[name]) for name in {"start", "end"} & set(query.names)})


def _ms(instants: pd.Series) -> pd.Series:
    if pd.api.types.is_integer_dtype(instants):
        return instants
    at = pd.to_datetime(instants, format="ISO8601", utc=True)
    return at.dt.as_unit("ms").astype("int64")


def checksum(rows: pd.DataFrame) -> int:
    """Return the sum of the hashes of the rows, modulo 2^64."""
    numbers = {name: "int64" for name in rows if pd.api.types.is_numeric_dtype(rows[name])}
    hashes = pd.util.hash_pandas_object(rows.astype(numbers), index=False)
    return int(np.add.reduce(hashes.to_numpy(np.uint64), dtype=np.uint64))


def difference(results: pd.DataFrame, expected: pd.DataFrame, *, sketched: bool) -> str | None:
    """Return a description of the difference; None if the rows are as expected.

    sketched: the users of a row are a sketch estimate, and may differ by its error."""
    exact = [name for name in expected if not (sketched and name == "users")]
    (have, want) = (results[exact], expected[exact])
    if len(have) != len(want) or checksum(have) != checksum(want):
        return f"{len(have):,} rows of checksum {checksum(have):x}, not {len(want):,} of " + (
            f"{checksum(want):x}"
        )
    if sketched and not want.empty:
        both = expected.merge(results, on=exact, suffixes=("", "_found"))
        error = float(np.sqrt((((both["users_found"] / both["users"]) - 1) ** 2).mean()))
        if error > _ERROR:
            return f"distinct users have an error of {error:.4f}, above {_ERROR:.4f}"
    return None
