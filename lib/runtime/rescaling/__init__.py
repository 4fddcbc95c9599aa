"""The state of a checkpoint in another number of partitions."""
