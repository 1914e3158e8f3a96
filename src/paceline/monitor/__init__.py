"""Watches a job from within: which operations wait too long, and at which lines of the program its ranks are."""
