"""A job's configuration: its sections, where values come from, and what is shown of them."""
