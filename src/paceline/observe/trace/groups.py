"""Determines the members of each group from all dumps together."""

from collections.abc import Sequence

from paceline.observe.trace.dump import Dump, Group


def groups_of(dumps: Sequence[Dump]) -> dict[int, Group]:
    """Return every channel that occurs, in the order of its first operation, with its group.

    A rank's own description of a group takes precedence. Without one, the members are the ranks that used the channel,
    so a member that never did is missing.
    """
    described = {channel: group for dump in dumps for channel, group in dump.groups.items()}
    first_use: dict[int, int] = {}
    users: dict[int, set[int]] = {}
    for dump in dumps:
        for event in dump.events:
            first_use[event.channel] = min(event.enqueue_ns, first_use.get(event.channel, event.enqueue_ns))
            users.setdefault(event.channel, set()).add(dump.rank)
    found: dict[int, Group] = {}
    for number, channel in enumerate(sorted(first_use, key=lambda c: (first_use[c], c))):
        members = tuple(sorted(users[channel]))
        found[channel] = described.get(channel) or Group(f"group {number}", members)
    return found
