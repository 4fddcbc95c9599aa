"""Kafka clients without Spark: admin, producer, redrive, and validation of Kafka options."""
