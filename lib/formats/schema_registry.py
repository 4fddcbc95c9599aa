"""Schema registries with Confluent's HTTP API, which other registries implement too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ..columns import require_integer
from ..durations import microseconds
from ..errors import ArgumentError, RegistryError
from ..http_client import (
    NoResponseError,
    RequestRefusedError,
    certificate_file,
    request_with_retries,
    require_http_url,
)
from .registered_schemas import RegisteredSchema

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

_NOT_FOUND_CODES = range(40_401, 40_404)
"""The error codes of a 404 for an unknown subject, version or schema. A 404 with another code comes
from a wrong address or a proxy."""

Result = TypeVar("Result")


@cache
def _client(
    settings: tuple[tuple[str, str | float], ...], certificates: str | None
) -> SchemaRegistryClient:
    """Return the client of this process, which caches schemas; they are immutable."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient(
        {**dict(settings), "ssl.ca.location": certificate_file(certificates)}
    )


class SchemaRegistry:
    """A schema registry with Confluent's HTTP API.

    Each process fetches a schema when it reads the first value with its id, and caches it. If the
    registry does not have an id, its records become dead letters; the next batch requests it again.
    If the registry is unavailable, denies access or returns an unexpected response, a RegistryError
    stops the job before anything of the batch is written.

    Args:
        url: the address of the registry, such as "http://localhost:8081", with its path if any.
        user, password: credentials for basic authentication.
        token: bearer token, instead of user and password.
        certificates: file of certificate authorities for https, on every executor; by default
            those of the machine.
        timeout: time limit of one request.
        attempts: maximum number of attempts for requests that fail in the network, or with status
            408, 425, 429 or 5xx.
        retry_delay: delay before the second attempt; it doubles with each further attempt.

    Credentials are sent to the executors with the query and to this address only; redirects are
    errors. The repr does not contain them.

    Raises:
        ArgumentError: at construction.
        RegistryError: from its methods.

    Source: Confluent, "Schema Registry API Reference".

    >>> SchemaRegistry("http://localhost:8081", user="reader", password="secret")
    SchemaRegistry('http://localhost:8081')
    """

    plan_name: ClassVar[str] = "schema_registry"

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
        retry_delay: str | timedelta = "500 milliseconds",
    ) -> None:
        self.url = require_http_url(url, "SchemaRegistry(url, user=..., password=...)")
        if (user is None) != (password is None) or (user is not None and token is not None):
            raise ArgumentError(
                "invalid combination of user, password and token",
                "user and password, only token, or none of them",
            )
        require_integer(attempts, "attempts", 1, 100)
        self.attempts = attempts
        self._retry_delay = microseconds(retry_delay, "retry_delay", min_value=0) / 1_000_000
        self._certificates = certificates
        settings: dict[str, str | float] = {
            "url": self.url,
            "timeout": microseconds(timeout, "timeout") / 1_000_000,
            "max.retries": 0,
            "cache.latest.ttl.sec": 0,
        }
        if user is not None:
            settings["basic.auth.user.info"] = f"{user}:{password}"
        if token is not None:
            settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
            settings["bearer.auth.token"] = token
            settings["bearer.auth.logical.cluster"] = ""
        self._settings = tuple(settings.items())

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema with this id; None if the registry does not know it.

        Raises RegistryError.
        """
        schema = self._request(lambda client: client.get_schema(schema_id))
        if schema is None:
            return None
        return RegisteredSchema(
            self._schema_text(schema),
            schema.schema_type or "AVRO",
            dict(self._references(schema, set())),
        )

    def latest_schema(self, subject: str) -> str:
        """Return the text of the latest schema of a subject: "clicks-value" for the topic `clicks`.

        A job that calls this at each start changes its columns with each registered schema; a
        schema file prevents that.

        Raises RegistryError.
        """
        latest = self._request(lambda client: client.get_latest_version(subject))
        if latest is None:
            raise RegistryError(
                f"unknown subject {subject!r} in the schema registry {self.url}",
                "no schema is registered under this subject.",
                "use a registered subject; the default for the values of a topic is <topic>-value.",
            )
        return self._schema_text(latest.schema)

    def _references(self, schema: Schema, seen: set[tuple[str, int]]) -> Iterator[tuple[str, str]]:
        """Yield the referenced schemas, each after its own references."""
        for reference in schema.references or []:
            name, subject, version = reference.name, reference.subject, reference.version
            if name is None or subject is None or version is None:
                raise self._protocol_error(f"invalid reference {reference!r}")
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            get_version = methodcaller("get_version", subject, version)
            referenced = self._request(get_version)
            if referenced is None:
                problem = f"reference to version {version} of {subject}, which does not exist"
                raise self._protocol_error(problem)
            yield from self._references(referenced.schema, seen)
            yield name, self._schema_text(referenced.schema)

    def _schema_text(self, schema: Schema) -> str:
        if not isinstance(schema.schema_str, str):
            _client.cache_clear()  # The client has cached the response.
            raise self._protocol_error("no schema")
        return schema.schema_str

    def _request(self, request: Callable[[SchemaRegistryClient], Result]) -> Result | None:
        """Return the response of the registry; None if it reports an unknown entity."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        def send() -> Result | None:
            try:
                return request(_client(self._settings, self._certificates))
            except SchemaRegistryError as fault:
                if fault.http_status_code == 404 and fault.error_code in _NOT_FOUND_CODES:
                    return None
                raise RequestRefusedError(fault.http_status_code) from None
            except (ValueError, TypeError, AttributeError):
                raise self._protocol_error("not a schema in JSON") from None

        try:
            return request_with_retries(send, attempts=self.attempts, retry_delay=self._retry_delay)
        except RequestRefusedError as fault:
            if fault.status not in (401, 403):
                raise self._protocol_error(f"status {fault.status}") from None
            raise RegistryError(
                f"the schema registry {self.url} denies access",
                f"status {fault.status}.",
                "pass user and password, or token, with read permission for schemas.",
            ) from None
        except NoResponseError as fault:
            raise RegistryError(
                f"the schema registry {self.url} is unavailable",
                f"{fault}.",
                "make it reachable for the driver and every executor, then restart the job; it "
                "resumes from its checkpoint.",
            ) from None

    def _protocol_error(self, problem: str) -> RegistryError:
        return RegistryError(
            f"unexpected response from the schema registry {self.url}",
            f"{problem}.",
            "pass the address below which /schemas/ids/1 exists, such as http://localhost:8081 or "
            "http://localhost:8080/apis/ccompat/v7.",
        )
