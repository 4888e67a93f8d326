"""`python checker certificate.json`: exit code 0 if both ends are proved, 1 if not, 2 for bad input. Needs python-flint alone.

Run as `python -m dp_edgeworth.checker`, or by the path of this folder, which then becomes a package without touching the path.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import time
from typing import Any


def package() -> Any:
    """This folder as a package."""
    if __package__:
        return importlib.import_module(__package__)
    folder = pathlib.Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if pathlib.Path(place or ".").resolve() != folder]
    found = importlib.util.spec_from_file_location("privacy_checker", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert found is not None and found.loader is not None
    sys.modules["privacy_checker"] = module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    """Checks one file; progress to standard error, once a second, after the first three."""
    shown = time.monotonic() + 2.0

    def progress(text: str) -> None:
        nonlocal shown
        if time.monotonic() > shown + 1.0:
            shown = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise ValueError("One argument must be given: the file of a certificate.")
        checker = package()
        with open(arguments[0], "rb") as file:
            result = checker.verify(file.read(checker.MOST_BYTES + 1), progress)
    except ImportError as error:
        print(f"The checker needs python-flint (pip install python-flint): {error}.", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:  # InputError is a ValueError
        print(error, file=sys.stderr)
        return 2
    print(f"upper: {result.upper}\nlower: {result.lower}", *result.reasons, sep="\n")
    print(f"checker {checker.VERSION}, {result.bits} bits, {result.seconds:.2f} s")
    return 0 if result.proved else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
