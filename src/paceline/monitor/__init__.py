"""Watching a job from within: operations that wait too long, and the lines of the program that its ranks are at."""
