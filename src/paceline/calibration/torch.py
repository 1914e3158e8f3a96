"""The constants of `paceline.torch`."""

MOST_AHEAD = 8
"""Batches that may be ready before the slowest rank takes them.

Found: by hand. Off by 2: half or twice the memory; in a simulation in which one batch in 20 takes five times as long to
read and reading as long as steps in the mean, a job takes 1.077 (half) or 1.029 times its steps' time and not 1.046,
and where steps take 1.25 times as long as reading 1.019 or 1.000 and not 1.001 (`studies/decision_sensitivity.py
ahead`)."""
MEMORY_SHARE = 8
"""A divisor: batches that are ready take at most an eighth of the memory that is available when the first one is.

Found: by hand. Off by 2: counts where a batch is above 1/128 of the available memory: half takes up to a fourth of the
memory from others, twice has up to half as many batches ready, with the loss of half of `MOST_AHEAD`."""
SPEED_WINDOW = 16
"""Batches after which ranks that share batches by their speed tell each other how fast they were.

Found: by hand. Off by 2: where another of four ranks has half of the others' speed after every 500 batches, and batches
have 5 % of noise, steps take 1.11 (half) or 1.18 times as long as with exact shares and not 1.13
(`studies/decision_sensitivity.py shares`); half tells twice as often, in one small exchange."""
KEPT_FREE = 1.9
"""A factor: the resident memory of activations and of gradients on their way over the bytes that they have, where the
allocator keeps what was freed: it has to be in one piece to be used again.

Found: on machine A with glibc 2.36 from the peak of `paceline bench hybrid`, ResNet-110 and VGG16 in two partitions,
batch 64, 8 microbatches: 1.9 with two microbatches in flight, 2.3 with one; it differs from run to run. Off by 2: half
is below 1, which memory cannot be; then ranks keep what they have no room for, and end. Twice makes ranks give memory
back, or recompute, where less than twice of what they need is there; what that takes was not measured."""
RETURNED_FROM = 128 << 10
"""Bytes of a piece of memory from which on it goes back to the system once it is freed, where memory is short.

Found: glibc's own value before it adapts it. Off by 2: by reckoning, half maps pieces of 64 to 128 KiB alone too, of
which each costs 16 to 32 page faults at every use; twice keeps free pieces of up to 256 KiB, of which `RETURNED` knows
nothing."""
RETURNED = 1.05
"""The factor of KEPT_FREE where pieces of RETURNED_FROM and more go back to the system: what is smaller does not.

Found: by hand. Off by 2: of what is above 1, 2.5 or 5 % of the memory of activations: half may foresee that much too
little, twice leaves as much unused."""
COMES_ALONG = 19 << 20
"""Bytes that a rank needs beside tensors: traced calls, torch's schedules, compiled kernels, what links hold.

Found: on machine A, VGG16 in two partitions as for KEPT_FREE, with pieces of 256 KiB and more returned: 19 MiB on both
ranks, of which one has a sixth of the other's tensors. Off by 2: by as many bytes too few or too many are foreseen, 10
or 19 MiB, which counts where a rank has hardly more."""
SPARED = 0.05
"""A share of the available memory that hybrid leaves free where nobody said how much it may use.

Found: by hand; predictions were at most 4 % below what control groups held. Off by 2: half leaves less free
than predictions were off by, so that a rank may end; twice leaves 5 % more of the memory unused."""
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
