"""The same queries over the same topics in the library, Spark, Flink and Kafka Streams."""
