"""`python -m dp_edgeworth.cli`, the same as `python -m dp_edgeworth`."""

import sys

from dp_edgeworth.cli import main

if __name__ == "__main__":
    sys.exit(main())
