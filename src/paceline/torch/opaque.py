"""Keeps torch.compile out of the backend, which C++ calls amid compiled code, where Dynamo sees all frames."""

from __future__ import annotations

import types
from typing import TypeVar

from torch._C._dynamo import eval_frame

T = TypeVar("T", bound=type)
_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def opaque(cls: T) -> T:
    """Run the methods of `cls`, and everything that they call, without Dynamo; it costs nothing at a call."""
    for member in vars(cls).values():
        if isinstance(member, types.FunctionType):
            eval_frame.set_code_exec_strategy(member.__code__, _SKIP)
    return cls
