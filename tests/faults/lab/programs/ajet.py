"""What the console script of the bundled trainer is."""

import sys

from trainer_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
