"""The PyTorch face: `torch.distributed.init_process_group("paceline")`.

Importing this package registers the backend. Where the package is installed nobody needs to import it,
because torch finds the name by itself (entry points `torch.distributed.backends` and `torch.backends`).
"""

from __future__ import annotations

from paceline.torch.registration import register

__all__ = ["register"]

register()
