"""`python checker certificate.json`: exit code 0 if both ends are proved, 1 if not, 2 for bad input. Needs python-flint alone.

Run as `python -m dp_edgeworth.checker`, or by the path of this folder, in which case it makes itself a package without touching the
path.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import time
from typing import Any

FEW_SECONDS = 3.0


def _package() -> Any:
    if __package__:
        return importlib.import_module(__package__)
    folder = pathlib.Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if pathlib.Path(place or ".").resolve() != folder]
    found = importlib.util.spec_from_file_location("privacy_checker", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert found is not None and found.loader is not None
    package = sys.modules["privacy_checker"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(package)
    return package


class Progress:
    """Writes to standard error, once a second, after the first few seconds."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.start > FEW_SECONDS and now - self.last > 1.0:
            self.last = now
            print(f"{now - self.start:6.0f} s  {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Checks one file."""
    try:
        checker = _package()
    except ImportError as error:
        print(f"The checker needs python-flint (pip install python-flint): {error}.", file=sys.stderr)
        return 2
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("One argument must be given: the file of a certificate.", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], "rb") as file:
            result = checker.verify(file.read(checker.MOST_BYTES + 1), Progress())
    except (OSError, checker.InputError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"upper: {result.upper}\nlower: {result.lower}", *result.reasons, sep="\n")
    print(f"checker {checker.VERSION}, {result.bits} bits, {result.seconds:.2f} s")
    return 0 if result.proved else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
