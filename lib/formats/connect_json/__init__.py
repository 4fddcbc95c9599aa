"""JSON as Kafka Connect's JsonConverter writes it: with or without its schema part."""

from ._connect_json import UNAVAILABLE, ConnectJson, ConnectJsonFormat
from ._values import Decimals, Timestamps

__all__ = [
    "UNAVAILABLE",
    "ConnectJson",
    "ConnectJsonFormat",
    "Decimals",
    "Timestamps",
]
