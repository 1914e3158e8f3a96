"""A rank that says when it has met the others, then all-reduces until it is told to stop, and checks every sum.

It says `met`, then `done` or `error` with what was raised, a line each. With --hold it says `door HOST PORT` before it
calls another rank, and waits for a line: where to call instead, or nothing. With --late it waits for a line before it
joins. --descriptors N: how many files it may open. --count N: elements of what it all-reduces.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import sys
from typing import Any

import numpy as np

import paceline
from paceline.rendezvous import linking
from paceline.rendezvous.dial import TcpAddress, reach


def held(endpoints: Any, *arguments: Any, **options: Any) -> Any:
    """As `reach`, but the test says when, and perhaps where."""
    (endpoint,) = endpoints
    print("door", endpoint.host, endpoint.port, flush=True)
    instead = sys.stdin.readline().split()
    return reach([TcpAddress(instead[0], int(instead[1]))] if instead else endpoints, *arguments, **options)


def told_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main(arguments: argparse.Namespace) -> None:
    if arguments.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.descriptors,) * 2)
    if arguments.hold:
        linking.reach = held
    if arguments.late:
        print("ready", flush=True)
        sys.stdin.readline()
    try:
        with paceline.init() as group:
            print("met", flush=True)
            told = np.zeros(1, np.float32)
            while not told[0]:
                array = np.full(arguments.count, group.rank + 1, np.float32)
                group.all_reduce(array)
                assert (array == group.size * (group.size + 1) / 2).all()
                told[0] = told_to_stop()
                group.all_reduce(told, "max")
    except paceline.errors.CommunicationError as error:
        print("error", json.dumps({"kind": type(error).__name__, "message": str(error)}), flush=True)
        os._exit(7)
    print("done", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--descriptors", type=int)
    parser.add_argument("--count", type=int, default=5000)
    main(parser.parse_args())
