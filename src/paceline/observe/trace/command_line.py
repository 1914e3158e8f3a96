"""The command lines of processes, for people who have to tell jobs apart: short, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.formats.svg_style import shortened

_LONGEST = 60
"""Characters of a command line that are shown."""
_READ = 1 << 12
"""Bytes of a command line that are read."""
_HIDDEN = "***"
_SECRET = r"(?:secrets?|token|passwords?|passwd|pwd|passphrase|credentials?|(?:api|access|private)[-_]?key)"
_NAME = rf"(?:[A-Za-z0-9]+[-_.])*[A-Za-z0-9]*{_SECRET}(?:[-_.][A-Za-z0-9]+)*"
"""A word that is a secret's name: SECRET, HF_TOKEN, PGPASSWORD, --api-key; no --tokenizer and no --max-tokens."""
_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_WITHIN = re.compile(rf"(?<![A-Za-z0-9_.-])(--?{_NAME}[= ]\s*|{_NAME}[\"']?\s*[=:]\s*)\S.*", re.IGNORECASE | re.DOTALL)
"""A name and its value within one word, as --token=… or in what `sh -c` runs. Nobody knows where such a value ends."""
_IN_ADDRESS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def command_line(pid: int) -> str:
    """Return the command line of a process as a line of up to 60 characters; "" if it has ended or cannot be seen.

    What follows --secret, --token or --password, or SECRET= within a word, is hidden, as is a password in an address.
    Neither the environment nor anything else of the process is read.
    """
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            data = file.read(_READ)
    except OSError:
        return ""
    return shown([word.decode(errors="replace") for word in data.rstrip(b"\0").split(b"\0")])


def shown(words: Sequence[str]) -> str:
    """Return the words of a command line in the same way."""
    first, *others = words
    line = " ".join(_masked([first.rpartition("/")[2], *others]))
    return shortened("".join(one if one.isprintable() else " " for one in line), _LONGEST).strip()


def _masked(words: Sequence[str]) -> Iterator[str]:
    hidden = False
    for word in words:
        yield _HIDDEN if hidden else _IN_ADDRESS.sub(rf"\1{_HIDDEN}", _WITHIN.sub(rf"\1{_HIDDEN}", word))
        hidden = not hidden and _OPTION.fullmatch(word) is not None
