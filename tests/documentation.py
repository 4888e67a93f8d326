"""Runs the examples of README.md, CONTRIBUTING.md and docs/, and compares what they print.

    python tests/documentation.py               runs them all
    python tests/documentation.py --write       writes what they print into the pages

A page's Python blocks run in order, in one namespace and one empty directory; of shell blocks the
lines that start with `dp-edgeworth` do, in the same directory. A block of plain text right after either is what was printed: the same
words, numbers to a thousandth, days as `...`. `<!-- needs: opacus, torch -->` before a block: it runs where these are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import math
import os
import pathlib
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_NEEDS = re.compile(r"<!-- needs: (.*?) -->\s*\Z")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")  # of an event that was solved for: the last digit of its noise moves it
_CHANGES = re.compile(r"\d{4}-\d\d-\d\d")  # days


@dataclasses.dataclass(frozen=True)
class Example:
    """A block, what it needs, and what it is said to print (None: nothing is said)."""

    page: pathlib.Path
    number: int
    language: str
    code: str
    needs: tuple[str, ...]
    output: str | None
    span: tuple[int, int] | None

    def missing(self) -> list[str]:
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def pages() -> list[pathlib.Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples(page: pathlib.Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    blocks, found = list(_BLOCK.finditer(text)), []
    for i, block in enumerate(blocks):
        if block["language"] not in ("python", "sh"):
            continue
        following = blocks[i + 1] if i + 1 < len(blocks) else None
        printed = following is not None and following["language"] == "text" and not text[block.end():following.start()].strip()
        needs = _NEEDS.search(text[:block.start()])
        found.append(Example(page, len(found), block["language"], block["body"], tuple(re.split(r",\s*", needs[1])) if needs else (),
                             following["body"] if printed and following else None,
                             following.span("body") if printed and following else None))
    return found


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(before)


def run(example: Example, namespace: dict[str, object]) -> str:
    """What the example prints."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if example.language == "python":
            exec(compile(example.code, f"{example.page.name} block {example.number}", "exec"), namespace)
        else:
            _shell(example.code)
    return _CHANGES.sub("...", "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n") if stream.getvalue() else ""


def _shell(code: str) -> None:
    from dp_edgeworth import cli

    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["dp-edgeworth"]:
            status = cli.main(words[1:])
            assert status == 0, f"{line}: exit code {status}"


def agrees(wanted: str, printed: str) -> bool:
    """The same words, and the same numbers up to what versions of numpy and of this package may move."""
    wanted, printed = (_HASH.sub("(hash)", text) for text in (wanted, printed))
    words = [_NUMBER.sub("#", text).split() for text in (wanted, printed)]
    numbers = [[float(number.replace(",", "")) for number in _NUMBER.findall(text)] for text in (wanted, printed)]
    return words[0] == words[1] and all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-8) for a, b in zip(*numbers, strict=True))


def rewrite(page: pathlib.Path) -> None:
    """Puts what is printed where something else is said."""
    text, shift = page.read_text(encoding="utf-8"), 0
    with workplace():
        namespace: dict[str, object] = {"__name__": "documentation"}
        for example in examples(page):
            printed = "" if example.missing() else run(example, namespace)
            if example.missing() or example.span is None or example.output is None or agrees(example.output, printed):
                continue
            start, end = (place + shift for place in example.span)
            text, shift = text[:start] + printed + text[end:], shift + len(printed) - (end - start)
    page.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what the examples print into the pages")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, default=None)
    arguments = parser.parse_args()
    for page in [path.resolve() for path in arguments.pages] or pages():
        if arguments.write:
            rewrite(page)
        with workplace():
            namespace: dict[str, object] = {"__name__": "documentation"}
            for example in examples(page):
                if not example.missing():
                    printed = run(example, namespace)
                    assert example.output is None or agrees(example.output, printed), (page, example.number, printed)
        print(f"{page.relative_to(ROOT)}: {len(examples(page))} examples")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
