"""Whether a broker is there at all, which Kafka's own client takes minutes to tell; what it has."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from ...jvm import TopicState
from ...sources.topics import topic_states
from ..job import Input


def answers(servers: str, seconds: float = 2.0) -> bool:
    """Return whether one of the bootstrap servers takes connections."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        # An address that cannot be read is left for Kafka's client to tell.
        with (
            suppress(OSError, ValueError, OverflowError),
            socket.create_connection((host, int(port)), seconds),
        ):
            return True
    return False


def asked(inputs: Mapping[str, Input], spark: SparkSession) -> dict[str, dict[str, TopicState]]:
    """Return the topics of each input by its name; no input whose broker is silent."""
    found = {}
    for name, given in inputs.items():
        source = given.reading.source
        # Kafka's own client would ask for ten seconds, and the query asks again by itself.
        if answers(source.servers):
            with suppress(OSError):
                found[name] = topic_states(spark, source)
    return found
