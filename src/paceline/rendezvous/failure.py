"""The reason why a meeting failed, as ranks tell each other through the store."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.errors import Culprit, RendezvousError

_LONGEST = 4000
"""Characters of a message."""
_LONGEST_HOST = 255
"""Characters of a host's name."""


def to_json(error: RendezvousError) -> dict[str, object]:
    """Return the error as a JSON object, which `from_json` reads. A long message is cut."""
    return {"error": str(error)[:_LONGEST], **error.culprit._asdict()}


def from_json(value: Mapping[str, object]) -> RendezvousError:
    """Return the error in a JSON object that another rank wrote; fields that are malformed are None."""
    rank, host, pid = (value.get(name) for name in Culprit._fields)
    culprit = Culprit(
        rank if type(rank) is int and 0 <= rank < 1 << 31 else None,
        host[:_LONGEST_HOST] if isinstance(host, str) else None,
        pid if type(pid) is int and 0 < pid < 1 << 31 else None,
    )
    return RendezvousError(str(value.get("error"))[:_LONGEST], culprit)
