"""One rank of a trial, which says what it meets, a JSON object a line: {"what": …, "at": seconds, …}.

Argument: the trial, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys

import faces
from rank_faults import armed, due_now, now
from trials import FAULTS, Trial


def say(what: str, **more: object) -> None:
    # The one call that neither waits for a lock nor takes memory that may be limited.
    os.write(1, (json.dumps({"what": what, "at": now(), **more}) + "\n").encode())


def run(trial: Trial, rank: int, size: int, store: object) -> None:
    steps = random.Random(trial.seed)
    face = faces.MADE[trial.face]()
    begins = now()
    between = armed(trial, rank, say) if trial.phase == "meeting" else lambda: None
    between()
    face.meet(trial, rank, size, store)
    between()
    face.goes_on(True)  # whoever is through knows that all have met
    say("met")
    if trial.phase == "steps":
        begins, between = now(), armed(trial, rank, say)
    goes_on_for = due_now(trial) if trial.expected in ("heals", "either") else float("inf")
    if trial.phase == "end":
        goes_on_for = 0.02
    number = done = 0
    wanted = True
    while wanted:
        between()
        done += face.step(number, steps)
        number += 1
        wanted = face.goes_on(now() - begins < goes_on_for)
        if number % 64 == 0:
            say("step", done=done)
    say("done", done=done)
    if trial.phase == "end":
        between = armed(trial, rank, say)
    between()
    face.close()
    say("closed")


def main(text: str) -> None:
    trial = Trial(**json.loads(text))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ["PACELINE_POLICY"] = trial.policy
    if FAULTS[trial.fault].place != "network":
        os.environ["PACELINE_MACHINE"] = f"machine-{trial.machines[rank]}"
    if folder := os.environ.get("CAMPAIGN_OUTPUT"):
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/rank-{rank}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), number)
    store = faces.store_client(trial.timeout)  # before anything happens: torch would wait for its answer for ever
    say("begins", rank=rank, pid=os.getpid())
    try:
        run(trial, rank, size, store)
    except faces.Wrong as error:
        say("wrong", message=str(error))
        raise
    except Exception as error:
        cause = error.__cause__ if type(error).__name__ == "HorovodInternalError" else None
        kinds = [kind.__name__ for kind in type(cause or error).__mro__]
        say("raised", kinds=kinds, message=str(error), rank=getattr(error, "rank", None))
        raise


if __name__ == "__main__":
    main(sys.argv[1])
