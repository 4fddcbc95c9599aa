"""JSON as Kafka Connect's JsonConverter writes it: with or without its schema part."""

from ._connect_json import ConnectJson, ConnectJsonFormat
from ._values import Decimals, Timestamps

__all__ = [
    "ConnectJson",
    "ConnectJsonFormat",
    "Decimals",
    "Timestamps",
]
