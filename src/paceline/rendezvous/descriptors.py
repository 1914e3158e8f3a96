"""Errors that too few file descriptors cause, and whether there are too few."""

from __future__ import annotations

import errno
import os
import resource


def explain(error: OSError) -> str:
    """Return the text of an error; if it was for want of descriptors, also how to get more."""
    text = error.strerror or str(error)
    if error.errno != errno.EMFILE:
        return text
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{text}: this process may have {limit}, and needs some three for each rank of its machine; raise ulimit -n"


def shortage() -> OSError | None:
    """Return the error with which this process can open no file, None where it can."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if error.errno in (errno.EMFILE, errno.ENFILE) else None
    return None
