"""The constants of `paceline.torch`."""

MOST_AHEAD = 8
"""Batches that may be ready before the slowest rank takes them.

Found: by hand. Off by 2: not measured; it costs memory, and helps only where reading takes unequally long."""
MEMORY_SHARE = 8
"""A divisor: batches that are ready take at most an eighth of the memory that is available when the first one is.

Found: by hand. Off by 2: not measured."""
SPEED_WINDOW = 16
"""Batches after which ranks that share batches by their speed tell each other how fast they were.

Found: by hand. Off by 2: not measured."""
KEPT_FREE = 1.9
"""A factor: the resident memory of activations and of gradients on their way over the bytes that they have, where the
allocator keeps what was freed: it has to be in one piece to be used again.

Found: on machine A with glibc 2.36 from the peak of `paceline bench hybrid`, ResNet-110 and VGG16 in two partitions,
batch 64, 8 microbatches: 1.9 with two microbatches in flight, 2.3 with one; it differs from run to run. Off by 2: not
measured; ranks then give memory back, which takes time, although there is enough of it, or keep it although there is
not."""
RETURNED_FROM = 128 << 10
"""Bytes of a piece of memory from which on it goes back to the system once it is freed, where memory is short.

Found: glibc's own value before it adapts it. Off by 2: not measured."""
RETURNED = 1.05
"""The factor of KEPT_FREE where pieces of RETURNED_FROM and more go back to the system: what is smaller does not.

Found: by hand. Off by 2: not measured."""
COMES_ALONG = 19 << 20
"""Bytes that a rank needs beside tensors: traced calls, torch's schedules, compiled kernels, what links hold.

Found: on machine A, VGG16 in two partitions as for KEPT_FREE, with pieces of 256 KiB and more returned: 19 MiB on both
ranks, of which one has a sixth of the other's tensors. Off by 2: not measured."""
SPARED = 0.05
"""A share of the available memory that hybrid leaves free where nobody said how much it may use.

Found: by hand; predictions were at most 4 % below what control groups held. Off by 2: not measured."""
CONTEST_SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
"""Bytes of the all-reduces that a group times by the engine and by NCCL, where both could serve CUDA tensors.

Found: by hand, from what a latency rules to what bandwidth rules. Off by 2: not measured."""
CONTEST_SECONDS, CONTEST_ROUNDS = 0.05, 16
"""A group begins no new round of them after so many seconds or rounds.

Found: by hand; NCCL takes longer to begin. Off by 2: not measured; of fewer rounds the fastest is further from the
truth."""
CONTEST_LEAD = 1.1
"""The engine gets a size if NCCL takes more than so many times as long.

Found: by hand: NCCL has run on hardware, and the engine's device path has not. Off by 2: NCCL serves sizes that the
engine would serve in half the time."""
