"""One query: its streams, the steps of a batch, and what is kept beside its target."""
