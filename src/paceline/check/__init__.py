"""`paceline check`: measures the links between the ranks of a job, and says what they are and which are slow."""
