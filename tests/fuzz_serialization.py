"""Fuzzes `from_json`: any bytes give an event or an `EventFormatError` of one sentence, and nothing else.

    python tests/fuzz_serialization.py -max_total_time=600

With atheris (`pip install atheris`) the search is guided by coverage and takes any libFuzzer option; without
it, the files of tests/golden/fuzz_corpus are mutated at random. New inputs go to a scratch directory
(-corpus=DIR to keep them); a failing input is left in the working directory and belongs in the golden corpus,
which tests/events/test_serialization.py replays. Not a test module: pytest does not collect it.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator

import attr
from dp_accounting import dp_event

try:
    import atheris
except ImportError:
    atheris = None
    from dp_edgeworth.events import json_fields, serialization
else:
    with atheris.instrument_imports(include=["dp_edgeworth"]):
        from dp_edgeworth.events import json_fields, serialization

CORPUS = pathlib.Path(__file__).parent / "golden" / "fuzz_corpus"
HEADER = '{"format": "dp-edgeworth-event", "version": 1, "event": '
WORDS = [
    *(f'"{name}"' for name in json_fields.LISTED),
    *(f'"{name.split(".")[-1]}": ' for name in json_fields.KINDS),
    *('"type": ', '"tuple": [', '"payload": ', '"FuzzDpEvent"', '"inf"', '"-inf"', "NaN", "Infinity", "null"),
    *("true", "1e999", "-0.0", "1e-999", "9" * 50, "\\ud800", "[[", "]]", "{{", "}}", '"events": [', HEADER),
]


SCALARS = [None, True, "inf", "-inf", "norm", "\ud800", "1.0", "", 0, 1, -1, 10**639, 0.5, -0.0, 1e308]


def _events_within(value: object) -> Iterator[dict[str, object]]:
    """The events of a parsed document, itself included."""
    if isinstance(value, dict) and "type" in value:
        yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _events_within(child)


VALID = [json.loads(path.read_bytes()) for path in sorted(CORPUS.glob("valid_*"))]
EXAMPLES = [event for document in VALID for event in _events_within(document)]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FuzzDpEvent(dp_event.DpEvent):
    """A registered class, whose field takes everything."""

    payload: object = None


def one_input(data: bytes) -> None:
    """Reads `data`, `data` as the event, and the document that `data` chooses; checks what comes back."""
    serialization.register_event("FuzzDpEvent", FuzzDpEvent)
    _check(data)
    _check(HEADER.encode() + data + b"}")
    _check(f"{HEADER}{json.dumps(chosen_event(iter(data), 0))}}}".encode())


def chosen_event(choices: Iterator[int], depth: int) -> object:
    """An event as parsed JSON: the bytes pick an example of a class, and other values for its fields.

    Bytes alone seldom get past the syntax: without this, a fault planted in one field's check was missed.
    """
    event = dict(EXAMPLES[next(choices, 0) % len(EXAMPLES)])
    for key in event:
        if next(choices, 1) % 3 == 0:
            event[key] = _chosen_value(choices, depth + 1)
    return event


def _chosen_value(choices: Iterator[int], depth: int) -> object:
    choice = next(choices, 0) % 24
    if choice < 6 and depth < 6:
        entries = [_chosen_value(choices, depth + 1) for _ in range(next(choices, 0) % 4)]
        names = ["a", "scale", "type", "tuple", "inf", "count"]
        return [entries, {"tuple": entries}, dict(zip(names[choice:], entries, strict=False))][choice % 3]
    return chosen_event(choices, depth + 1) if choice < 10 and depth < 6 else SCALARS[choice % len(SCALARS)]


def _check(data: bytes) -> None:
    try:
        event = serialization.from_json(data)
    except serialization.EventFormatError as error:
        message = str(error)
        assert message.startswith("$") and message.isascii() and "\n" not in message and len(message) < 5000
        return
    json.loads(data.decode("utf-8-sig"))  # never more lenient than JSON
    text = serialization.to_json(event)
    assert serialization.to_json(serialization.from_json(text)) == text


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One to eight random edits: flip, cut, insert a word or a piece of another input, repeat a piece."""
    for _ in range(rng.randint(1, 8)):
        start, stop = sorted(rng.randint(0, len(data)) for _ in range(2))
        other = rng.choice(others)
        piece = rng.choice(
            [
                b"",
                bytes([rng.randrange(256)]),
                rng.choice(WORDS).encode(),
                data[start:stop] * 2,
                other[rng.randint(0, len(other)) :][: rng.randint(0, 100)],
            ]
        )
        data = data[:start] + piece + data[rng.choice([start, stop, min(start + 1, len(data))]) :]
    return data[:4096]


def random_search(seconds: float) -> None:
    """The fallback: mutates the corpus; an input that gives a new sentence joins it."""
    rng, inputs, sentences, runs = random.Random(0), _corpus(), set(), 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        data = rng.choice([mutated(rng.choice(inputs), inputs, rng), rng.randbytes(rng.randint(1, 60))])
        try:
            one_input(data)
            serialization.from_json(data)
        except serialization.EventFormatError as error:
            sentence = str(error).split(": ", 1)[1].split("Found")[0]
            if sentence not in sentences and len(sentences) < 10_000:
                sentences.add(sentence)
                inputs.append(data)
        except BaseException:
            pathlib.Path(f"crash-{abs(hash(data)):x}").write_bytes(data)
            raise
        runs += 1
    print(f"{runs} inputs, {len(sentences)} different sentences, no failure")


def _corpus() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.iterdir())] or [HEADER.encode()]


def _option(name: str, default: str) -> str:
    return next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith(f"-{name}=")), default)


def main() -> None:
    if atheris is None:
        random_search(float(_option("max_total_time", "60")))
        return
    scratch = _option("corpus", "") or tempfile.mkdtemp(prefix="fuzz_serialization_")
    pathlib.Path(scratch).mkdir(parents=True, exist_ok=True)
    for seed in range(100):  # choices for `chosen_event`; the golden corpus is text
        pathlib.Path(scratch, f"choices{seed}").write_bytes(random.Random(seed).randbytes(60))
    words = pathlib.Path(tempfile.mkdtemp()) / "words.dict"
    words.write_text("".join('"' + w.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for w in WORDS))
    options = [a for a in sys.argv[1:] if not a.startswith("-corpus=")]
    defaults = [f"-dict={words}", "-max_len=4096", "-timeout=20"]
    atheris.Setup([sys.argv[0], *defaults, *options, scratch, str(CORPUS)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
