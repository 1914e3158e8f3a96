"""Processes that run ahead of everything else on this machine, where what they measure is not the machine's load."""

from __future__ import annotations

AHEAD = ("setsid", "sh", "-c", 'echo -20 2>/dev/null > /proc/self/autogroup; exec nice -n -20 "$@"', "sh")
"""Words before a command line, which make it lead a session of its own: Linux weighs sessions against each other before
it weighs their processes (sched(7), "The autogroup feature"). A process that leads a group already would be forked."""
