"""Process sets, at the place where `horovod.common` has them."""

from __future__ import annotations

from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]
