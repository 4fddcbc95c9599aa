"""Command-line options of commands that connect to Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.loading import ENVIRONMENT_PREFIX

Servers = Annotated[
    str,
    typer.Option(
        envvar=f"{ENVIRONMENT_PREFIX}KAFKA__BOOTSTRAP_SERVERS",
        help="Addresses of the brokers, as host:port separated by commas.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Setting of Kafka's client as name=value, such as security.protocol=SSL; repeatable.",
    ),
]
