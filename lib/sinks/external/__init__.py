"""Sinks that send rows to systems other than Kafka."""
