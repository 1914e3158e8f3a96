"""Measurements between the ranks of a job: links, who disturbs whom, and the CPU time that a rank waits for."""
