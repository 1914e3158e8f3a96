"""jax_losing_a_rank.py FOLDER SIGNAL: rank 1 gets SIGNAL; the other writes what JAX then raises to FOLDER/said."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import paceline.jax

group = paceline.jax.initialize()

import jax  # noqa: E402

summed = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
summed(np.ones((1, 3))).block_until_ready()
if group.rank == 1:
    os.kill(os.getpid(), signal.Signals[sys.argv[2]])
try:
    summed(np.ones((1, 3))).block_until_ready()
except Exception as error:  # of another class in every version of JAX
    said = Path(sys.argv[1], "said")
    said.with_suffix(".part").write_text(str(error))
    said.with_suffix(".part").rename(said)
