"""Sparse gradients, also of parameters that have had no gradient yet on a rank, which then takes them for dense ones.

That rank gives dense zeros, and the ranks disagree. All of them know this of each other at once: they combine the
gradient again, now as a sparse one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch.nn import Parameter

from paceline.errors import Mismatch
from paceline.horovod import job
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.allreduce import sparse_allreduce_async
from paceline.horovod.torch.own_gradients import gradient, take, zeros

Finish = Callable[[bool], "Finish | None"]
"""Waits for gradients that are under way, and stores them if they are wanted. Returns what has to follow, if anything
has."""

_AGAIN = ".sparse"
_USUAL_DIMS = 1  # what those have that torch.nn.functional.embedding makes


class SparseGradients:
    """Combines gradients of an optimizer that are sparse. names: those under which each is combined."""

    def __init__(self, names: Mapping[Parameter, str], op: int, process_set: ProcessSet) -> None:
        self._names, self._op, self._process_set = names, op, process_set
        self._dims: dict[Parameter, int] = {}

    def fill_in(self, parameter: Parameter) -> bool:
        """Give a parameter without a gradient zeros. Returns whether it is not known that these should be sparse."""
        dims = self._dims.get(parameter)
        parameter.grad = zeros(parameter, dims)
        return dims is None

    def combine(self, parameter: Parameter, alone: bool) -> Finish:
        """Start to combine a parameter's sparse gradient. alone: whether it is no part of a group."""
        self._dims[parameter] = gradient(parameter).sparse_dim()
        finish = self._start(parameter, self._names[parameter])

        def finish_once(wanted: bool) -> Finish | None:
            try:
                return finish(wanted)
            except HorovodInternalError as error:
                if alone and disagreed(error):
                    return self._again(parameter)
                raise

        return finish_once

    def combine_instead(self, parameter: Parameter) -> Finish:
        """Start to combine a gradient of zeros that others may have combined as a sparse one."""
        self._dims[parameter] = _USUAL_DIMS
        parameter.grad = zeros(parameter, _USUAL_DIMS)
        return self._again(parameter)

    def refuse(self, parameter: Parameter) -> None:
        """Tell ranks that combine this parameter's gradient as a sparse one that it is dense here."""
        channel = job.current().channel(self._process_set.process_set_id)
        name = channel.name("allreduce", self._names[parameter] + _AGAIN)
        channel.refuse([name], ValueError("the gradient is dense here; sparse_as_dense=True takes both"))

    def _again(self, parameter: Parameter) -> Finish:
        return self._start(parameter, self._names[parameter] + _AGAIN)

    def _start(self, parameter: Parameter, name: str) -> Finish:
        result = sparse_allreduce_async(gradient(parameter), name, self._op, self._process_set)

        def finish(wanted: bool) -> None:
            combined = result()
            if wanted:
                take(parameter, combined)

        return finish


def disagreed(error: HorovodInternalError) -> bool:
    """Return whether a call failed because ranks submitted different things."""
    return isinstance(error.__cause__, Mismatch)
