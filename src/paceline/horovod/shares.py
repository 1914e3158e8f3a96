"""The division of a tensor's rows among ranks."""

from __future__ import annotations

from collections.abc import Sequence


def check_splits(splits: Sequence[int] | None, rows: int, size: int) -> list[int]:
    """Return the number of rows that each of `size` ranks gets; equal shares if there are no splits.

    Raises ValueError for splits that do not fit the rows, and for rows that cannot be shared equally.
    """
    if splits is None:
        if rows % size:
            raise ValueError(f"alltoall without splits cannot share {rows} rows equally among {size} ranks")
        return [rows // size] * size
    shares = [int(share) for share in splits]
    if len(shares) != size or min(shares) < 0 or sum(shares) > rows:
        raise ValueError(
            f"alltoall expects {size} splits, none negative, that add up to at most {rows} rows; got {shares}"
        )
    return shares


def scattered_rows(rows: int, size: int) -> list[int]:
    """Return the number of rows that each of `size` ranks gets of a reducescatter; the first ranks get one more."""
    share, left = divmod(rows, size)
    return [share + (rank < left) for rank in range(size)]
