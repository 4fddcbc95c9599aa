"""The rows that each query must give, made of the topics in pandas, and what contestants gave.

Rows are compared by their number and by a sum of their hashes, which no order changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from deltalake import DeltaTable

from .topics import CLICKS, CLOSING, PAIR, rows_of

# The relative error that `distinct` states, with room for the windows that there are.
_ERROR = 0.016 * 1.25
_GAP_MS = 30_000
SLOW_MS, WITHIN_MS = 200, 60_000


@dataclass(frozen=True)
class Query:
    """A query's columns by their names in Spark's tables, and how to know its rows.

    Two names of one column are those of the library and of the query by hand."""

    columns: Mapping[str, str]
    expected: Callable[[str], pd.DataFrame]
    """From the broker's address, the rows that the topics give."""

    @property
    def names(self) -> list[str]:
        """The columns of the rows."""
        return list(dict.fromkeys(self.columns.values()))


def _clicks(servers: str) -> pd.DataFrame:
    return rows_of(servers, CLICKS)


def _placed(servers: str, panes: int) -> pd.DataFrame:
    """Return each click once for each of the windows that hold it, of so many panes of 10 s."""
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
    found = runs.agg(
        key=("user", "first"),
        start=("ts", "min"),
        end=("ts", "max"),
        views=("ms", "size"),
        total_ms=("ms", "sum"),
    )
    return found.assign(end=found["end"] + _GAP_MS)


def _distinct(servers: str) -> pd.DataFrame:
    placed = _placed(servers, 1).groupby(["key", "start"])
    return placed.agg(users=("user", "nunique")).reset_index()


def _pairs(servers: str) -> pd.DataFrame:
    (impressions, clicks) = (rows_of(servers, name) for name in PAIR)
    clicks = clicks.rename(columns={"ts": "click_ts"})
    pairs = impressions.merge(clicks, on="id")
    return pairs[(pairs["click_ts"] - pairs["ts"]).between(0, 60_000)]


def _enriched(servers: str) -> pd.DataFrame:
    clicks = _clicks(servers)
    clicks = clicks[clicks["user"] != CLOSING]
    number = clicks["user"].str.removeprefix("user-").astype(int)
    return clicks.assign(plan="plan-" + (number % 7).astype(str))


def _slower(servers: str) -> pd.DataFrame:
    """Return each slow click with the user's next one that is slower still, within a minute."""
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
    found = slow.iloc[first][["key", "start", "ms"]]
    return found.assign(end=starts[after], slower=times[after])


_WINDOW = {"window.start": "start", "window.end": "end", "views": "views", "total_ms": "total_ms"}
_SESSION = {"session_window.start": "start", "session_window.end": "end"}
_JOINED = {"ts_left": "ts", "ts_right": "click_ts", "position": "position", "ms": "ms"}
_BY_HAND = {"ts": "ts", "click_ts": "click_ts", "click_position": "position", "click_ms": "ms"}
_SEQUENCE = {"user": "key", "started": "start", "ended": "end", "ms": "ms", "slower": "slower"}
QUERIES: dict[str, Query] = {
    "tumbling": Query({"page": "key", **_WINDOW}, partial(_windows, panes=1)),
    "hopping": Query({"page": "key", **_WINDOW}, partial(_windows, panes=6)),
    "session": Query({"user": "key", **_WINDOW, **_SESSION}, _sessions),
    "distinct": Query({"page": "key", "window.start": "start", "users": "users"}, _distinct),
    "join": Query({"id": "id", **_JOINED, **_BY_HAND}, _pairs),
    "enrichment": Query({name: name for name in ("ts", "page", "user", "ms", "plan")}, _enriched),
    "sequence": Query(_SEQUENCE, _slower),
}


def of_table(query: Query, path: Path) -> pd.DataFrame:
    """Return the rows of a Delta table under the names of the query."""
    table = DeltaTable(path).to_pyarrow_table().flatten()
    here = [name for name in query.columns if name in table.column_names]
    rows: pd.DataFrame = table.select(here).to_pandas().rename(columns=query.columns)
    return rows


def in_form(query: Query, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows as they are compared: instants in ms since 1970, without the last clicks."""
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
    """Return a sum of the rows' hashes, modulo 2^64."""
    numbers = {name: "int64" for name in rows if pd.api.types.is_numeric_dtype(rows[name])}
    hashes = pd.util.hash_pandas_object(rows.astype(numbers), index=False)
    return int(np.add.reduce(hashes.to_numpy(np.uint64), dtype=np.uint64))


def difference(found: pd.DataFrame, expected: pd.DataFrame, *, sketched: bool) -> str | None:
    """Return what is wrong with the rows of a query; None where they are those expected.

    sketched: the users of a row are counted by a sketch, and may differ by its error."""
    exact = [name for name in expected if not (sketched and name == "users")]
    (have, want) = (found[exact], expected[exact])
    if len(have) != len(want) or checksum(have) != checksum(want):
        return f"{len(have):,} rows of checksum {checksum(have):x}, not {len(want):,} of " + (
            f"{checksum(want):x}"
        )
    if sketched and not want.empty:
        both = expected.merge(found, on=exact, suffixes=("", "_found"))
        error = float(np.sqrt((((both["users_found"] / both["users"]) - 1) ** 2).mean()))
        if error > _ERROR:
            return f"different users with an error of {error:.4f}, above {_ERROR:.4f}"
    return None
