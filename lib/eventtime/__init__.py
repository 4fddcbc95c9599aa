"""When did it happen: event time, watermark guards, late rows."""
