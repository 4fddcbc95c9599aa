"""A schema registry over HTTP, by the interface of Confluent's that others offer as well."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from ..columns import require_whole
from ..durations import microseconds
from ..errors import ArgumentError, RegistryError
from ..web import RefusedError, SilentError, answered, opener, require_address
from ._schema_ids import Written

_KINDS = "application/vnd.schemaregistry.v1+json, application/json"
_LONGEST = 16_000_000
_NOT_FOUND = range(40_401, 40_404)
"""What a registry says beside a 404 of a subject, a version or a schema that it does not have. A
404 without it is of a wrong address, or of a proxy."""
_MOST_REFERENCES = 1_000

_FETCHED: dict[tuple[str, int], Written] = {}
"""The schemas that this process has fetched, by registry and id; an id is of one for ever."""


class Registry:
    """Where the schemas of a topic's values are, by the id that each value begins with.

    A schema is fetched when its id is first met, by the process that reads the value, and kept for
    as long as that process lives. An id that the registry does not have makes its records dead
    letters, and is asked for again in the next batch. A registry that does not answer, refuses, or
    answers with anything else is no reason to put records aside: a RegistryError stops the job,
    before anything of the batch is written.

    Args:
        url: the registry's address, such as "http://localhost:8081"; with a path where it has one.
        user, password: for basic authentication.
        token: for authentication by a bearer token, in place of these.
        certificates: a file of the authorities that https is checked by, on every executor; the
            machine's own otherwise.
        timeout: how long one request may take.
        attempts: how often a request is made that fails by the network, or with a status of 408,
            425, 429 or 5xx.
        pause: how long to wait before the second attempt; each further one waits twice as long.

    The secrets go to the executors with the query, show in no repr, and are sent to this address
    alone: a redirection is an error.

    Raises:
        ArgumentError: at construction.
        RegistryError: where it is asked.

    Source: Confluent, "Schema Registry API Reference".

    >>> Registry("http://localhost:8081", user="reader", password="secret")
    Registry('http://localhost:8081')
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        certificates: str | None = None,
        timeout: str | timedelta = "10 seconds",
        attempts: int = 5,
        pause: str | timedelta = "500 milliseconds",
    ) -> None:
        self.url = require_address(url, "user= and password= of Registry.")
        if (user is None) != (password is None) or (user is not None and token is not None):
            raise ArgumentError(
                "user, password and token do not go together.",
                "user and password, token alone, or none of them.",
            )
        require_whole(attempts, "attempts", 1, 100)
        self.attempts = attempts
        self._timeout = microseconds(timeout, "timeout") / 1_000_000
        self._pause = microseconds(pause, "pause", least=0) / 1_000_000
        self._certificates = certificates
        self._authorization = None if token is None else f"Bearer {token}"
        if user is not None:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._authorization = f"Basic {pair}"

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def by_id(self, number: int) -> Written | None:
        """Return a schema; None where the registry says that it has none.

        Raises RegistryError.
        """
        place = (self.url, number)
        if place not in _FETCHED:
            answer = self._asked(f"/schemas/ids/{number}")
            if answer is None:
                return None
            _FETCHED[place] = self._written(answer)
        return _FETCHED[place]

    def latest(self, subject: str) -> str:
        """Return the text of a subject's newest schema: "clicks-value" for the topic `clicks`.

        Asked for at each start, a job's columns change with what is registered; a file keeps them.

        Raises RegistryError.
        """
        answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer is None:
            raise RegistryError(
                f"the schema registry {self.url} has no subject {subject!r}.",
                "a subject that is registered: that of a topic's values is <topic>-value.",
            )
        return self._written(answer).text

    def _written(self, answer: dict[str, Any]) -> Written:
        return Written(
            self._text(answer),
            str(answer.get("schemaType") or "AVRO"),
            dict(self._references(answer, set())),
        )

    def _references(self, answer: dict[str, Any], seen: set[str]) -> Iterator[tuple[str, str]]:
        """Yield the schemas that one names, each after those that it names in turn."""
        for reference in answer.get("references") or []:
            try:
                name = str(reference["name"])
                subject = quote(reference["subject"], safe="")
                place = f"/subjects/{subject}/versions/{int(reference['version'])}"
            except (KeyError, TypeError, ValueError):
                raise self._unlike(f"a reference {reference!r}") from None
            if place in seen:
                continue
            seen.add(place)
            found = self._asked(place)
            if found is None or len(seen) > _MOST_REFERENCES:
                raise self._unlike(f"a reference to {place}, which it does not have")
            yield from self._references(found, seen)
            yield name, self._text(found)

    def _text(self, answer: dict[str, Any]) -> str:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise self._unlike("no schema in its answer")
        return text

    def _asked(self, path: str) -> dict[str, Any] | None:
        """Return what the registry answers; None where it says that there is nothing."""
        try:
            return answered(lambda: self._once(path), attempts=self.attempts, pause=self._pause)
        except RefusedError as fault:
            raise self._refused(fault.status) from None
        except SilentError as fault:
            raise RegistryError(
                f"the schema registry {self.url} does not answer: {fault}.",
                "a registry that the driver and every executor can reach.",
                "start the job again once it answers: it goes on where it was.",
            ) from None

    def _once(self, path: str) -> dict[str, Any] | None:
        request = Request(f"{self.url}{path}", headers={"Accept": _KINDS})
        if self._authorization is not None:
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with opener(self._certificates).open(request, timeout=self._timeout) as response:
                return self._object(response.read(_LONGEST))
        except HTTPError as fault:
            if fault.code == 404 and self._code(fault.read(_LONGEST)) in _NOT_FOUND:
                return None
            raise

    def _object(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._unlike("no JSON object")
        return found

    def _code(self, content: bytes) -> object:
        try:
            return self._object(content).get("error_code")
        except RegistryError:
            return None

    def _refused(self, status: int) -> RegistryError:
        if status in (401, 403):
            return RegistryError(
                f"the schema registry {self.url} refuses who asks: status {status}.",
                "user and password, or a token, of one who may read schemas.",
            )
        return self._unlike(f"status {status}")

    def _unlike(self, what: str) -> RegistryError:
        return RegistryError(
            f"{self.url} answers not as a schema registry does: {what}.",
            "the address under which /schemas/ids/1 is found, with its path.",
            "http://localhost:8081, or http://localhost:8080/apis/ccompat/v7",
        )
