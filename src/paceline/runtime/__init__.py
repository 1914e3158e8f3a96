"""The runtime of a process: its engine, its links to other ranks, its arena and its groups."""
