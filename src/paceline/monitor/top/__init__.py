"""Shows a running job, live."""
