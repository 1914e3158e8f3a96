"""The verdict on a job: what limits it, in a sentence, with the figures behind it and what would help."""
