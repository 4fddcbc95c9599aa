"""Vectorized decoding of binary values into Arrow arrays, shared by Avro and Protobuf."""
