"""Metrics of a rank for Prometheus, over HTTP, to those who know a token."""
