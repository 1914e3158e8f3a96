"""Prints the figures of a job's ranks on this machine again and again: what `paceline top --host` runs over ssh.

    python -m paceline.top.stream JOB SECONDS

JOB: the job's number in hexadecimal, or "-" for the only one that runs here. Each line is a JSON object: `job`,
`figures` as a rank answers them, and `silent`, the ranks that did not answer, with the reason. It ends with the job.
"""

from __future__ import annotations

import json
import sys
import time

from paceline.observe.figures import MAX_BYTES
from paceline.trace import live
from paceline.trace.asking import Silence, questions

ANSWER_SECONDS = 2.0
"""Seconds that a rank may take to answer."""


def main(job: str, seconds: float) -> int:
    """Print lines until the job ends. Returns 0, or 1, with a sentence on stderr, if it does not run here."""
    try:
        found = live.listening()
        if job == "-" and len({name.job for name in found}) > 1:
            raise ValueError("several jobs run here; run paceline top on a machine of one of them")
        names = live.choose(found if job == "-" else [name for name in found if name.job == int(job, 16)], None)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    while True:
        answers = questions(names, "figures", json.loads, ANSWER_SECONDS, MAX_BYTES)
        silent = {one.name.rank: str(one) for one in answers if isinstance(one, Silence)}
        figures = [one for one in answers if one is not None and not isinstance(one, Silence)]
        if not figures and not silent:
            return 0
        print(json.dumps({"job": names[0].job, "figures": figures, "silent": silent}), flush=True)
        time.sleep(seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
