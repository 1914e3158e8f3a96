"""A rank of a job that a signal ends: arguments are the signal, the ranks to which it comes, by commas, and how.

"early": once some steps were made. "late": once there is a report. "handled": early, and the program's own handler ends
it with code 7. "deaf": early, and the program lets no other thread run from then on.
"""

import os
import re
import signal
import sys
from itertools import count
from pathlib import Path

import numpy as np

import paceline

number, victims, how = getattr(signal, sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
group = paceline.init()
report = Path(os.environ["PACELINE_REPORT"])
if how == "handled":
    signal.signal(number, lambda *_: sys.exit(7))
enough = np.zeros(1)
for step in count():
    enough[0] = report.exists() if how == "late" else step == 19
    group.all_reduce(enough, "max")
    if enough[0]:
        break
if str(group.rank) in victims:
    os.kill(os.getpid(), number)
    if how == "deaf":
        re.match(r"(a+)+$", "a" * 64 + "b")
while True:
    group.all_reduce(enough)
