"""What Paceline finds on a machine, what it would use and why, and what would be better."""
