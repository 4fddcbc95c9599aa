"""How the values of an input are read, and where their schemas are found."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from ...errors import ConfigError, TidegateError
from ...formats import (
    Format,
    Registry,
    avro_format,
    headed,
    json_format,
    protobuf_format,
)
from .base import Section
from .secrets import resolved
from .values import Duration, OptionValue, Wait


class RegistrySection(Section):
    """[registry]: the schema registry, and who asks it; secrets as those of [kafka]."""

    url: str = Field(description="its address, with its path where it has one")
    user: OptionValue | None = Field(default=None, description="of basic authentication")
    password: OptionValue | None = Field(default=None, description="env:NAME or file:PATH")
    token: OptionValue | None = Field(
        default=None, description="of a bearer: env:NAME or file:PATH"
    )
    certificates: str | None = Field(
        default=None, description="a file of the authorities that https is checked by"
    )
    timeout: Duration = Field(default="10 seconds", description="of one request")
    attempts: int = Field(default=5, gt=0, le=100, description="of a request that fails")
    pause: Wait = Field(
        default="500 milliseconds", description="before the second attempt; then twice as long"
    )

    def value(self) -> Registry:
        """Return the registry, with its secrets read from where they are kept."""
        given = {key: getattr(self, key) for key in ("user", "password", "token")}
        secrets = resolved({key: text for key, text in given.items() if text}, "registry")
        try:
            return Registry(
                self.url,
                **secrets,
                certificates=self.certificates,
                timeout=self.timeout,
                attempts=self.attempts,
                pause=self.pause,
            )
        except TidegateError as error:
            raise ConfigError(f"[registry]: {error.given}", error.allowed, error.hint) from None


class FormattedSection(Section):
    """How the values of an input are written, and which of their fields are read."""

    event_schema: str = Field(alias="schema")
    format: Literal["json", "avro", "protobuf"] = Field(
        default="json", description="how the values are written"
    )
    header: bool = Field(
        default=False, description="whether a value begins with a schema registry's five bytes"
    )
    writer: str | None = Field(
        default=None, description="the file of the Avro schema of values without a header"
    )

    descriptor: str | None = Field(
        default=None, description="the file of the descriptor set of Protobuf, as protoc writes it"
    )
    message: str | None = Field(default=None, description="the full name of the Protobuf message")

    @model_validator(mode="after")
    def _formatted(self) -> FormattedSection:
        if self.format == "avro" and self.header == (self.writer is not None):
            raise ConfigError(
                f"format is 'avro', header is {str(self.header).lower()}, and writer is "
                f"{self.writer!r}.",
                "header = true with a [registry], or a writer for values without a header.",
                'writer = "click.avsc"',
            )
        if self.format == "protobuf" and not (self.descriptor and self.message):
            raise ConfigError(
                f"format is 'protobuf', descriptor is {self.descriptor!r}, and message is "
                f"{self.message!r}.",
                "a descriptor set, and the name of a message in it.",
                'descriptor = "clicks.desc", message = "shop.Click"',
            )
        for key, kind in (("writer", "avro"), ("descriptor", "protobuf"), ("message", "protobuf")):
            if getattr(self, key) is not None and self.format != kind:
                raise ConfigError(
                    f"{key} is {getattr(self, key)!r}, and format is {self.format!r}.",
                    f"a {key} of values in {kind}.",
                    f'format = "{kind}"',
                )
        return self

    def made(self, registry: RegistrySection | None) -> Format:
        """Return the format of the values."""
        if self.format == "json":
            form = json_format(self.event_schema)
            return headed(form) if self.header else form
        found = self._registry(registry)
        if self.format == "protobuf":
            place = Path(self.descriptor or "")
            message = self.message or ""
            return protobuf_format(place, message, columns=self.event_schema, registry=found)
        writer = None if self.writer is None else Path(self.writer)
        return avro_format(self.event_schema, writer=writer, registry=found)

    def _registry(self, given: RegistrySection | None) -> Registry | None:
        if not self.header:
            return None
        if given is None:
            raise ConfigError(
                f"header is true and format {self.format!r}, and there is no [registry].",
                "the address at which the schemas are found.",
                "--set registry.url=http://localhost:8081",
            )
        return given.value()
