"""The process that a job is: its Spark session, signals, exit codes, and where things lie."""
