"""Entry point of `python -m comparisons`."""

from comparisons.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
