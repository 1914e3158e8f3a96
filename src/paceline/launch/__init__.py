"""Starting the ranks of a job on this machine, watching them, and leaving nothing behind."""
