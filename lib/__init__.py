"""Stream transforms for PySpark Structured Streaming, from Kafka to Delta, exactly once."""

__version__ = "0.1.0"
