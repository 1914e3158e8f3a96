"""Starts the ranks of a job, watches them, and makes sure that no process of the job remains."""
