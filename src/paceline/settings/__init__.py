"""The settings of a rank, read from the environment. No other room reads environment variables."""
