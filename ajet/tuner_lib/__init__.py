"""See `ajet`."""
