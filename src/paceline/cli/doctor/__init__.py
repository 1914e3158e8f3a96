"""Reports what Paceline finds on a machine, what it would use and why, and what could be improved."""
