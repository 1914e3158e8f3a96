"""layer_environment.py VENV: let this interpreter's environment see what VENV, another one, has installed.

Its own packages come first. What is installed into VENV as editable is seen as well.
"""

import sys
import sysconfig
from pathlib import Path

own = Path(sysconfig.get_path("purelib"))
other = Path(sys.argv[1]).resolve() / own.relative_to(sys.prefix)
(own / "layer.pth").write_text(f"import site; site.addsitedir({str(other)!r})\n")
