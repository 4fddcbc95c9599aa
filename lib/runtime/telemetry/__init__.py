"""What a run tells: progress for people, metrics for machines."""
