"""The engine: runs a job as a streaming query, batch by batch."""
