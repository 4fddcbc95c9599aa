"""The same queries over the same topics in the library, plain PySpark, Flink and Kafka Streams."""
