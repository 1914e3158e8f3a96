"""Small helpers that scripts import from `horovod.common.util`."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from paceline.horovod import basics, ops

T = TypeVar("T")

EXTENSIONS = ["tensorflow", "torch", "mxnet"]
"""The frameworks that Horovod has an API for."""

_RELEASE = re.compile(r"\s*v?(\d+(?:\.\d+)*)(?P<early>[._-]?(?:a|b|c|rc|alpha|beta|pre|preview|dev))?", re.IGNORECASE)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether both the framework and Paceline's API for it are installed."""
    ours = importlib.util.find_spec(f"paceline.horovod.{ext_base_name}")
    return ours is not None and importlib.util.find_spec(ext_base_name) is not None


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raise ImportError if the API `ext_name`, such as "horovod.torch", is not available.

    The other arguments are ignored.
    """
    name = ext_name.removeprefix("horovod.")
    if not extension_available(name):
        raise ImportError(f"{ext_name} is not there: it needs {name}, and an API for it in Paceline")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether this framework, "tensorflow" or "torch", sees a GPU."""
    if not extension_available(ext_base_name):
        return False
    if ext_base_name == "tensorflow":
        import tensorflow

        return bool(tensorflow.config.list_physical_devices("GPU"))
    import torch

    return torch.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    """Return False: Paceline has its own transports."""
    return basics.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Return False: Paceline has its own transports."""
    return basics.gloo_built()


def nccl_built(verbose: bool = False) -> bool:
    """Return False: tensors on a GPU are combined by Paceline's own kernels or in host memory."""
    return bool(basics.nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    """Return False: Paceline has its own transports."""
    return basics.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """Return False: Paceline has its own transports."""
    return basics.ccl_built()


@contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Set these environment variables until the context ends; a value of None leaves its variable alone."""
    before = {name: os.environ.get(name) for name, value in kwargs.items() if value is not None}
    os.environ.update({name: value for name, value in kwargs.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[int | None, bool | None], int]:
    """Return the function that chooses the reduction from the arguments `op` and `average`; older scripts give
    `average`.

    reduce_ops: ignored, because the reductions of all frameworks have the same numbers here.
    """
    return ops.chosen


def num_rank_is_power_2(num_rank: int) -> bool:
    """Return whether this number of ranks is a power of two. Adasum does not require it here."""
    return num_rank > 0 and num_rank.bit_count() == 1


def split_list(l: Sequence[T], n: int) -> list[Sequence[T]]:  # noqa: E741
    """Split the list into `n` consecutive parts, the first of which may be longer by one."""
    size, longer = divmod(len(l), n)
    ends = [part * size + min(part, longer) for part in range(n + 1)]
    return [l[begin:end] for begin, end in pairwise(ends)]


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Do nothing: Paceline is not built for one version of a framework."""


def is_iterable(x: Any) -> bool:
    """Return whether `x` can be iterated over."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Return whether a version is at least this release, given as major.minor.patch.

    Raises ValueError for invalid versions.
    """
    for text in (ver, target):
        if not isinstance(text, str):
            raise ValueError(f"a version is a text such as '2.13.0', not {text!r}")
    found = _RELEASE.match(ver)
    if found is None:
        raise ValueError(f"a version looks like '2.13.0', not {ver!r}")
    if re.fullmatch(r"\d+\.\d+\.\d+", target) is None:
        raise ValueError(f"the version to compare with should be major.minor.patch, got {target!r}")
    have, want = ([int(part) for part in text.split(".")] for text in (found[1], target))
    have += [0] * (len(want) - len(have))
    return have > want or (have == want and found["early"] is None)
