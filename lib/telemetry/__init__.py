"""Statistics of a run: progress in the console, metrics for Prometheus, and the HTML report."""
