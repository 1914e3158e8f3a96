"""Finds the numbers of processes and threads with which a user's own training script is fastest on this machine."""
