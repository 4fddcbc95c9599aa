"""The process of a job: signals, exit codes and disk space."""
