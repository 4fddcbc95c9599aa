"""Everything around a query: session, configuration, run, progress."""
