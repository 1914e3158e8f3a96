"""A rank's view of itself: its operations and named requests as they end, its steps, and figures of all these."""
