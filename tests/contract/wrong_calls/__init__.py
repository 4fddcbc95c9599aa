"""Wrong calls of the public API: the call by name, and a text that its error must contain."""
