"""`python -m dp_edgeworth`: the `dp-edgeworth` command where its script is not on the path."""

import sys

from dp_edgeworth.cli import main

if __name__ == "__main__":
    sys.exit(main())
