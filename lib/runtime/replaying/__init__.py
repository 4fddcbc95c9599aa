"""The same job over its log again, into tables beside the old ones; then compared, and switched."""
