"""What to do about too few file descriptors."""

from __future__ import annotations

import errno
import resource


def explain(error: OSError) -> str:
    """The error; and how to get more, if it was for want of descriptors."""
    words = error.strerror or str(error)
    if error.errno != errno.EMFILE:
        return words
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{words}: this process may have {limit}, and needs some three for each rank of its machine; raise ulimit -n"
