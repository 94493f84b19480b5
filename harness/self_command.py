"""How the harness starts itself as another process, wherever that stands.

Not with `-m`: that would look for modules in the working directory first, where a person may have a
`monitors.py` of their own.
"""

import sys

_MAIN = "import sys; sys.path[:1] = []; from harness.cli.app import main; main()"
HARNESS = (sys.executable, "-c", _MAIN)
HARNESS_WITHOUT_PYTHONPATH = (sys.executable, "-E", "-c", _MAIN)
"""For an environment whose PYTHONPATH is the training's, with packages that may bear the names of ours."""
