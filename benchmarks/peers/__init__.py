"""The same queries on the same topics by the library, by hand, by Flink and by Kafka Streams."""
