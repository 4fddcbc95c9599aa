"""The job: its parts, their validation, its fingerprint and its DataFrames."""
