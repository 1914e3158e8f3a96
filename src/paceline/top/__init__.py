"""A running job, live."""
