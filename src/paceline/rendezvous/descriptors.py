"""Explain errors that too few file descriptors cause."""

from __future__ import annotations

import errno
import resource


def explain(error: OSError) -> str:
    """Return the text of an error; if it was for want of descriptors, also how to get more."""
    text = error.strerror or str(error)
    if error.errno != errno.EMFILE:
        return text
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{text}: this process may have {limit}, and needs some three for each rank of its machine; raise ulimit -n"
