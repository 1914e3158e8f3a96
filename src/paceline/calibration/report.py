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
SIGNAL_SECONDS = 1.0
"""Seconds that the figures of other ranks may take while the job runs, and twice while a signal ends a rank.

Found: by hand; they take milliseconds. Off by 2: with half, a rank in a long call that lets no thread run has older
figures in the report; with twice, a rank beside a stopped one takes 2 s longer to end by SIGTERM.
"""
FIRST_SECONDS, MOST_SECONDS = 2.0, 60.0
"""Seconds until a running job's report and trace are first written, and the most from then to the next time.

Each wait is twice as long as the one before. Found: by hand; writing takes tens of milliseconds of CPU time. Off by 2:
with half, that is spent twice as often; with twice, a job killed by SIGKILL leaves what is up to 2 min old.
"""
SHARE = 0.01
"""The largest share of the time that writing may take.

Found: by hand. Off by 2: with half, reports of thousands of ranks are written half as often; with twice, their first
rank loses up to 2 % of a core.
"""
