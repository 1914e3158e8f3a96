"""What a job's run came to: every rank's figures, gathered at the end on its first rank."""
