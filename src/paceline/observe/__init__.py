"""What a rank sees of itself: its operations and named requests as they end, steps, and figures of all of it."""
