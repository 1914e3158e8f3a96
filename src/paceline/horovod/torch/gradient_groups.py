"""Decides which gradients are submitted together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch.nn import Parameter

Groups = int | Sequence[Sequence[torch.Tensor]] | None
"""A number of groups of consecutive parameters, or the groups themselves; None submits each gradient alone."""


def check_groups(groups: Groups) -> None:
    """Raise ValueError unless `groups` is valid."""
    if groups is None:
        return
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
        return
    if not isinstance(groups, Sequence):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    members = [member for group in groups for member in group]
    if any(not isinstance(member, torch.Tensor) for member in members):
        raise ValueError("groups must consist of torch.Tensor.")
    if len(set(members)) < len(members):
        raise ValueError("A parameter can only appear once in groups.")


def units(parameters: Sequence[Parameter], groups: Groups) -> list[tuple[Parameter, ...]]:
    """Return the parameters in units that are submitted together; each parameter is in exactly one unit.

    Parameters that are in none of the given groups form units of their own. The order of parameters is kept.
    """
    if not groups:
        return [(parameter,) for parameter in parameters]
    if isinstance(groups, int):
        share, left = divmod(len(parameters), groups)
        ends = [number * share + min(number, left) for number in range(groups + 1)]
        parts = [tuple(parameters[start:end]) for start, end in itertools.pairwise(ends)]
        return [part for part in parts if part]
    known = {id(parameter): parameter for parameter in parameters}
    grouped = [tuple(known.pop(id(member)) for member in group if id(member) in known) for group in groups]
    return [group for group in grouped if group] + [(parameter,) for parameter in known.values()]
