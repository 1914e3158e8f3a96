"""The environment variables that tell numeric libraries how many threads to use."""

from collections.abc import Mapping

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
INTEROP_VARIABLES = ("PACELINE_INTEROP_THREADS", "TF_NUM_INTEROP_THREADS")


def interop_variables(threads: int | None) -> dict[str, str]:
    """Return the variables by which Paceline sets torch's inter-op threads, and TensorFlow its own; None sets none."""
    return {} if threads is None else {name: str(threads) for name in INTEROP_VARIABLES}


def thread_variables(threads: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add so that each process uses `threads` threads; variables set in `environ` take
    precedence.

    OMP_NUM_THREADS alone counts for all libraries, because MKL and OpenBLAS follow it if their own variables are
    absent.
    """
    if "OMP_NUM_THREADS" in environ:
        return {}
    return {name: str(threads) for name in THREAD_VARIABLES if name not in environ}
