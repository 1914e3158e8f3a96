"""jax_own_collectives.py: on four ranks, JAX's own collectives over Paceline give what NumPy computes."""

import numpy as np

import paceline.jax

group = paceline.jax.initialize()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import pytest  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

try:
    from jax import shard_map
except ImportError:  # before JAX 0.8
    from jax.experimental.shard_map import shard_map

jax.config.update("jax_enable_x64", True)
SIZE, ROWS, COLUMNS = 4, 2, 2
assert group.size == jax.process_count() == jax.device_count() == SIZE
LINE = Mesh(np.array(jax.devices()), ("all",))
SQUARE = Mesh(np.array(jax.devices()).reshape(ROWS, COLUMNS), ("row", "column"))
me = group.rank
row, column = divmod(me, COLUMNS)


def on(mesh, function, of_rank):
    """What `function` gives on this rank, if `of_rank(rank)` is the array of each."""
    spec = PartitionSpec(mesh.axis_names)
    whole = jax.make_array_from_process_local_data(NamedSharding(mesh, spec), of_rank(me))
    result = jax.jit(shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec))(whole)
    return np.asarray(result.addressable_data(0))


def integers(dtype, count, least=-3, most=4):
    """Of each rank `count` whole numbers that the sum of all keeps exact."""
    least = 0 if np.dtype(dtype).kind in "ub" else least
    return lambda rank: np.random.default_rng(rank).integers(least, most, count).astype(dtype)


DTYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 complex64 complex128".split()
for dtype in [*DTYPES, jnp.bfloat16]:
    of_rank = integers(dtype, 3)
    everyone = [of_rank(rank) for rank in range(SIZE)]
    np.testing.assert_array_equal(on(LINE, lambda x: lax.psum(x, "all"), of_rank), sum(everyone))
    np.testing.assert_array_equal(
        on(LINE, lambda x: lax.all_gather(x, "all", tiled=True), of_rank), np.concatenate(everyone)
    )
    if np.dtype(dtype).kind != "c" and dtype != "uint64":
        np.testing.assert_array_equal(on(LINE, lambda x: lax.pmax(x, "all"), of_rank), np.max(everyone, axis=0))
        np.testing.assert_array_equal(on(LINE, lambda x: lax.pmin(x, "all"), of_rank), np.min(everyone, axis=0))

highest = integers("uint32", 3, most=5)
large = [highest(rank) + np.uint32(2**32 - 6) for rank in range(SIZE)]  # would be negative as int32
np.testing.assert_array_equal(on(LINE, lambda x: lax.pmax(x, "all"), large.__getitem__), np.max(large, axis=0))
np.testing.assert_array_equal(on(LINE, lambda x: lax.psum(x, "all"), large.__getitem__), sum(large))

# What jax#40830 does: halves of 4 MiB of float64 in groups of two, several times; and sizes beside it.
for chunk in (1, 3, 1000, 2**19):
    of_rank = integers("float64", chunk * COLUMNS)
    wanted = (of_rank(row * COLUMNS) + of_rank(row * COLUMNS + 1))[column * chunk : (column + 1) * chunk]
    for _ in range(3):
        got = on(SQUARE, lambda x: lax.psum_scatter(x, "column", tiled=True), of_rank)
        np.testing.assert_array_equal(got, wanted)
of_rank = integers("uint16", 4 * SIZE)
wanted = sum(of_rank(rank) for rank in range(SIZE))[4 * me : 4 * (me + 1)]
np.testing.assert_array_equal(on(LINE, lambda x: lax.psum_scatter(x, "all", tiled=True), of_rank), wanted)

of_rank = integers("int32", 2 * SIZE)
np.testing.assert_array_equal(
    on(LINE, lambda x: lax.all_to_all(x, "all", 0, 0, tiled=True), of_rank),
    np.concatenate([of_rank(rank)[2 * me : 2 * (me + 1)] for rank in range(SIZE)]),
)
circle = [(rank, (rank + 1) % SIZE) for rank in range(SIZE)]
np.testing.assert_array_equal(on(LINE, lambda x: lax.ppermute(x, "all", circle), of_rank), of_rank((me - 1) % SIZE))
np.testing.assert_array_equal(
    on(LINE, lambda x: lax.ppermute(x, "all", [(0, 2), (1, 1)]), of_rank),  # ranks 0 and 3 receive nothing
    {1: of_rank(1), 2: of_rank(0)}.get(me, np.zeros(2 * SIZE, np.int32)),
)
of_row = sum(of_rank(rank) for rank in range(SIZE) if rank // COLUMNS == row)
of_column = sum(of_rank(rank) for rank in range(SIZE) if rank % COLUMNS == column)
np.testing.assert_array_equal(  # two communicators in one program
    on(SQUARE, lambda x: lax.psum(x, "row") - lax.psum(x, "column"), of_rank), of_column - of_row
)

summed = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.full((1, 3), me))
np.testing.assert_array_equal(np.asarray(summed.addressable_data(0))[0], np.full(3, sum(range(SIZE))))

with pytest.raises(Exception, match="Unsupported primitive type for reduction: f16"):
    on(LINE, lambda x: lax.psum(x, "all"), integers("float16", 3))
with pytest.raises(Exception, match="Paceline has no minimum and maximum of uint64; int64 and float64 have them"):
    on(LINE, lambda x: lax.pmax(x, "all"), integers("uint64", 3))
