"""When the page of a run is written: as the run goes on, and at its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ....errors import SetupError
from ...summary import write_whole
from ..record import Record
from .page import State, page

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 5.0
_GOING_ON = (
    "Going on when this page was written. It is written every few seconds: if that was longer ago, "
    "the run was killed, or hangs. What its last batch has written is in the tables all the same."
)


class Report:
    """Keeps the page of a run. A context manager, around all that the run does.

    The page that a run before has left is replaced when the run begins, so that it is never taken
    for this one's. A page that cannot be written later, as on a full disk, stops no job: it stays
    as it was, and the log says so.

    stopped: asked at the end whether the run was stopped. Raises SetupError, when the block begins,
    where the page cannot be written.
    """

    def __init__(self, record: Record, path: str | None, stopped: Callable[[], bool]) -> None:
        self._record = record
        self._path = None if path is None else Path(path)
        self._stopped = stopped
        self._due = 0.0
        self._failed = False

    def __enter__(self) -> Report:
        if self._path is not None:
            try:
                self._write(State("running", _GOING_ON))
            except OSError as error:
                raise SetupError(
                    f"the report cannot be written to {self._path}: {error.strerror}.",
                    "a file in a folder that may be written.",
                    "--report run.html",
                ) from error
        return self

    def look(self) -> None:
        """Write the page anew, if that is due."""
        if self._path is not None and time.monotonic() >= self._due:
            self._try(State("running", _GOING_ON))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._path is None:
            return
        self._record.ends()
        if error is not None:
            told = f"Failed: {type(error).__name__}: {error}"
            self._try(State("failed", told[:4_000]))
        else:
            self._try(State("ended", "Stopped as asked." if self._stopped() else "Ended."))

    def _try(self, state: State) -> None:
        try:
            self._write(state)
        except Exception as error:
            # Whatever is wrong with the page, the job's own work is not.
            if not self._failed:
                _LOG.warning("the report is not written: %s: %s", type(error).__name__, error)
            self._failed = True

    def _write(self, state: State) -> None:
        if self._path is not None:
            write_whole(page(self._record.now(), state, time.time()), self._path)
            self._due = time.monotonic() + _EVERY_SECONDS
