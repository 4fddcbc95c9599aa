"""Wrong calls of the public API: by name the call, and a text that its error must have."""
