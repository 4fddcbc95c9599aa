"""A checkpoint: Spark's logs, their integrity, the lineage and fencing."""
