"""Batches of Arrow: what Avro and Protobuf have in common when bytes become columns."""
