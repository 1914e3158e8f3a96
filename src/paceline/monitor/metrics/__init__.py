"""A rank's metrics for Prometheus, served over HTTP to clients that know a token."""
