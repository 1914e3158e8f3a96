"""What a process has: its engine, its links to other ranks, its arena and its groups."""
