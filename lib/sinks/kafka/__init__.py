"""Sinks that write to and read from Kafka topics."""
