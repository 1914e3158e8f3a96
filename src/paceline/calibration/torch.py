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
KEPT_FREE = 1.5
"""A factor: the resident memory of activations and of gradients on their way over the bytes that they have. The
allocator keeps the rest free between pieces in use.

Found: on machine A, with one rank, from the peak of ResNet-110, VGG16, a transformer and a U-Net of `paceline bench
hybrid` at batches of 8 and 16: 1.4 to 1.9 beyond weights. With 1.5 their peaks were predicted within 13 %, four of five
within 8 %; nothing else was predicted with it. Off by 2: not measured."""
