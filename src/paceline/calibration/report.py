"""The constants of reports and of the verdict."""

GATHER_SECONDS = 5.0
"""Seconds that a rank that has finished waits for the figures of the others.

Found: by hand; sending a rank's figures takes milliseconds. Off by 2: with half, figures of a rank that ends 2.5 to 5 s
after the first one are missing in the report; with twice, a job of which one rank never ends ends 5 s later.
"""
BELIEVED_ERROR = 0.15
"""The largest error, as a fraction of the measured step, with which the simulator is believed.

Found: by hand, above what it misses runs on machine A by. Off by 2: with half, more verdicts come without
a prediction; with twice, some come with one that is wrong by up to 30 %.
"""
