"""The Spark session: jars, settings, presets, JVM options, logging and errors."""
