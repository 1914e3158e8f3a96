"""The report of a finished job: every rank's figures, gathered at the end on the job's first rank."""
