"""JSON as Kafka Connect's JsonConverter writes it: with or without its schema part."""

from ._format import ConnectJsonFormat, connect_json_format
from ._values import Decimals, Timestamps

__all__ = ["ConnectJsonFormat", "Decimals", "Timestamps", "connect_json_format"]
