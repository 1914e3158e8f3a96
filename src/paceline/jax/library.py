"""Gives XLA the handler of Paceline's collectives, and carries out what the handler is called for."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import jax

from paceline import _engine
from paceline.errors import CommunicationError, Mismatch
from paceline.jax.execution import COLLECTIVES
from paceline.jax.groups import executor
from paceline.jax.memory import Memory

TARGET = "paceline_collective"
"""The name under which XLA knows the handler."""

_HEADER = 3
"""The numbers of a description before its buffers: the collective, the group and the option."""
_PER_BUFFER = 3
"""The numbers of a buffer in a description: its address, its elements, and XLA's number of its dtype."""
_UNKNOWN, _INVALID_ARGUMENT, _FAILED_PRECONDITION, _INTERNAL = 2, 3, 9, 13
"""XLA's numbers of kinds of errors."""
_XLA_DTYPES = {
    "bool": 1,
    "int8": 2,
    "int32": 4,
    "int64": 5,
    "uint8": 6,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "bfloat16": 16,
}
"""XLA's numbers of the engine's dtypes (xla_data.proto)."""
_ENGINE_DTYPES = {number: _engine.DTYPES[name] for name, number in _XLA_DTYPES.items()}
_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_int64)


class Library:
    """The library in this process. The handler blocks a thread of XLA's until a collective is over."""

    def __init__(self) -> None:
        self._native = ctypes.CDLL(str(_path()))
        self._native.paceline_jax_fail.restype = None
        self._native.paceline_jax_fail.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
        self._hook = _HOOK(self._call)
        self._native.paceline_jax_connect(self._hook)
        handler = jax.ffi.pycapsule(self._native.paceline_jax_handler)
        jax.ffi.register_ffi_target(TARGET, handler, platform="cpu", api_version=1)

    def _call(self, outcome: int, description: Any, arguments: int, results: int) -> None:
        collective = 0
        try:
            numbers = description[: _HEADER + _PER_BUFFER * (arguments + results)]
            collective, group, option = numbers[:_HEADER]
            buffers = [
                Memory(numbers[at], numbers[at + 1], _ENGINE_DTYPES[numbers[at + 2]])
                for at in range(_HEADER, len(numbers), _PER_BUFFER)
            ]
            executor(group).run(collective, option, buffers[:arguments], buffers[arguments:])
        except BaseException as error:
            text = str(error) if isinstance(error, CommunicationError) else f"{COLLECTIVES[collective]}: {error}"
            self._native.paceline_jax_fail(outcome, _code(error), text.encode())


def _code(error: BaseException) -> int:
    if isinstance(error, Mismatch):
        return _FAILED_PRECONDITION
    if isinstance(error, CommunicationError):
        return _UNKNOWN
    return _INVALID_ARGUMENT if isinstance(error, ValueError) else _INTERNAL


def _path() -> Path:
    engine = importlib.util.find_spec("paceline._engine")
    assert engine is not None and engine.origin is not None
    return Path(engine.origin).with_name("_jax.so")


LIBRARY = Library()
"""The library in this process."""
