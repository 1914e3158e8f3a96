"""What limits a job, in a sentence, with the figures behind it and what would help."""
