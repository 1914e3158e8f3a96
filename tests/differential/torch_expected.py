"""What a step of a program must give, worked out in one process from what every rank submits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor
from torch_programs import EVENTS, FLOATS, INTEGERS, MOVED, Step, values

UNREDUCED = ("int16", *MOVED)
"""Numbers that are only moved; NCCL and Gloo do not reduce most of them either."""
REFUSED = "refused"
"""An operation that is not defined for a dtype."""
Results = list[Tensor] | str | None
"""What a place of the group has afterwards; REFUSED for an error; None: anything."""

_LOGICAL = {
    **dict.fromkeys(("SUM", "MAX", "BOR"), torch.logical_or),
    **dict.fromkeys(("PRODUCT", "MIN", "BAND"), torch.logical_and),
    "BXOR": torch.logical_xor,
}
_LINEAR = {"SUM": torch.add, "AVG": torch.add}
_REAL = {**_LINEAR, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum}
_WHOLE = {**_REAL, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def combined(step: Step, tensors: list[Tensor]) -> Tensor | None:
    """What `step.op` makes of them; None where it is not defined. An average of integers is divided towards zero."""
    known: dict[str, Callable[[Tensor, Tensor], Tensor]]
    known = _LOGICAL if step.dtype == "bool" else _WHOLE if step.dtype in INTEGERS else _REAL
    known = known if step.dtype in FLOATS or step.dtype in INTEGERS or step.dtype == "bool" else _LINEAR
    if step.op not in known or step.dtype in UNREDUCED:
        return None
    result = reduce(known[step.op], tensors)
    if step.op != "AVG":
        return result
    if result.is_complex():
        return torch.view_as_complex(torch.view_as_real(result) / len(tensors))
    return torch.div(result, len(tensors), rounding_mode="trunc" if step.dtype in INTEGERS else None)


def _all_reduce(step: Step, places: int) -> list[Results]:
    result = combined(step, [values(step, place) for place in range(places)])
    return [REFUSED if result is None else [result]] * places


def _reduce(step: Step, places: int) -> list[Results]:
    whole = _all_reduce(step, places)[0]
    return [whole if place == step.root or whole == REFUSED else None for place in range(places)]


def _reduce_scatter(step: Step, places: int) -> list[Results]:
    parts = [combined(step, [values(step, place, part) for place in range(places)]) for part in range(places)]
    return [REFUSED if part is None else [part] for part in parts]


def _broadcast(step: Step, places: int) -> list[Results]:
    return [[values(step, step.root)]] * places


def _all_gather(step: Step, places: int) -> list[Results]:
    return [[values(step, place) for place in range(places)]] * places


def _all_gather_into_tensor(step: Step, places: int) -> list[Results]:
    return [[torch.stack([values(step, place) for place in range(places)])]] * places


def _gather(step: Step, places: int) -> list[Results]:
    return [_all_gather(step, places)[0] if place == step.root else [] for place in range(places)]


def _scatter(step: Step, places: int) -> list[Results]:
    return [[values(step, step.root, part)] for part in range(places)]


def _all_to_all(step: Step, places: int) -> list[Results]:
    return [[values(step, place, part) for place in range(places)] for part in range(places)]


def _all_to_all_single(step: Step, places: int) -> list[Results]:
    return [
        [torch.cat([values(step, place, part, step.splits[place][part]) for place in range(places)])]
        for part in range(places)
    ]


def _send(step: Step, places: int) -> list[Results]:
    """Every place sends to the next one, but a single one to nobody."""
    return [[values(step, (place - 1) % places)] if places > 1 else [] for place in range(places)]


def _batch_isend_irecv(step: Step, places: int) -> list[Results]:
    """Every place sends part 0 to the next one and part 1 to the one before."""
    if places == 1:
        return [[]]
    return [[values(step, (place - 1) % places), values(step, (place + 1) % places, 1)] for place in range(places)]


def _nothing(step: Step, places: int) -> list[Results]:
    """Nothing that could be compared: an event itself says what must be true."""
    return [[]] * places


_EXPECTED: dict[str, Callable[[Step, int], list[Results]]] = {
    "all_reduce": _all_reduce,
    "functional_all_reduce": _all_reduce,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "send": _send,
    "batch_isend_irecv": _batch_isend_irecv,
    "barrier": _nothing,
    "all_gather_object": _all_gather,
    "broadcast_object_list": _broadcast,
    **dict.fromkeys(EVENTS, _nothing),
}


def expected(step: Step, places: int) -> list[Results]:
    """The results of every place."""
    return _EXPECTED[step.call](step, places)
