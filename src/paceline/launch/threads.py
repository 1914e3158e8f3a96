"""The environment variables by which numeric libraries learn how many threads to use."""

from collections.abc import Mapping

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def thread_variables(threads: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to add so that each process uses `threads` threads; what `environ` already sets stays as it is.

    A user who sets OMP_NUM_THREADS alone means it for all of them: MKL and OpenBLAS follow it when their own is absent.
    """
    if "OMP_NUM_THREADS" in environ:
        return {}
    return {name: str(threads) for name in THREAD_VARIABLES if name not in environ}
