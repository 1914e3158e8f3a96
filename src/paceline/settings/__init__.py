"""What the environment says: the only reader of environment variables."""
