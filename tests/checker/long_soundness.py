"""Ten thousand tampered certificates with random hints: not one false claim may be proved. Prints a table; exit code 1 if one is.
Not a test module.

    python tests/checker/long_soundness.py [--number 10000] [--seed 0] [--seconds S]       # fewer, if S seconds are over
"""

from __future__ import annotations

import argparse
import collections
import math
import pathlib
import random
import sys
import time

sys.path[:0] = [str(folder) for folder in pathlib.Path(__file__).resolve().parents[:3]]

import tampering  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf)
    arguments, start = parser.parse_args(), time.monotonic()
    generator, counts, wrong = random.Random(arguments.seed), collections.Counter(), []
    while counts.total() < arguments.number and time.monotonic() - start < arguments.seconds:
        text, end, how = tampering.tampered(generator)
        verdict = tampering.judge(text, end, how)
        counts[how, verdict.end] += 1
        if verdict.wrong:
            wrong.append(text)
    print("| what was false | the checker | certificates |\n|---|---|---|")
    print("\n".join(f"| {how} | {end} | {number} |" for (how, end), number in sorted(counts.items())))
    print(f"\n{counts.total()} certificates, false claims proved: {len(wrong)}")
    for text in wrong[:3]:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
