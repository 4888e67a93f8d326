"""Certificates that claim something false, made from true ones: ends moved beyond the truth, delta moved, leaves or the relation
swapped, any hints."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, NamedTuple

from cases import GOLDEN

from dp_edgeworth import checker

FLOATS = ("c", "step", "low", "high", "reach", "digits", "tau", "split", "turn", "calm")


class Truth(NamedTuple):
    """An event with its exact epsilon at a delta (golden/checker_truths.json; sources there) and hints that prove it."""

    event: dict[str, Any]
    relation: str
    delta: str
    epsilon: float
    lower: str
    upper: str
    hints: dict[str, Any]

    def certificate(self) -> dict[str, Any]:
        return {
            "format": "dp-edgeworth-certificate",
            "version": 1,
            "event": self.event,
            "neighboring_relation": self.relation,
            "quantity": "epsilon",
            "given": self.delta,
            "lower": self.lower,
            "upper": self.upper,
            "hints": self.hints,
        }


TRUTHS = tuple(Truth(**row) for row in json.loads((GOLDEN / "checker_truths.json").read_text())["rows"])


class Verdict(NamedTuple):
    """What the checker said about the false end, and whether it was wrong."""

    end: str
    wrong: bool
    how: str


def verify(certificate: dict[str, Any] | str) -> checker.Verification:
    return checker.verify(certificate if isinstance(certificate, str) else json.dumps(certificate), most_seconds=20.0)


def judge(text: str, false_end: str, how: str) -> Verdict:
    """The false end must not be proved."""
    try:
        result = verify(text)
    except checker.InputError:
        return Verdict("input error", False, how)
    found = getattr(result, false_end)
    return Verdict(found, found == "proved", how)


def tampered(generator: random.Random) -> tuple[str, str, str]:
    """The text of a certificate, the end of it that is false, and what was done."""
    truth = generator.choice(TRUTHS)
    data = copy.deepcopy(truth.certificate())
    how = generator.choice(("upper", "lower", "delta lower", "delta higher", "relation", "leaf"))
    relative = 10 ** -generator.uniform(3, 9)  # the exact values are known to about 1e-11
    end = "lower" if how in ("lower", "delta higher") else "upper"
    if how == "upper":
        data["upper"] = f"{truth.epsilon * (1 - relative):.17g}"
    elif how == "lower":
        data["lower"] = f"{truth.epsilon * (1 + relative):.17g}"
    elif how == "delta lower":  # at epsilon, delta is what it was
        data["given"], data["upper"] = f"{float(truth.delta) * (1 - 100 * relative):.17g}", f"{truth.epsilon:.17g}"
    elif how == "delta higher":
        data["given"], data["lower"] = f"{float(truth.delta) * (1 + 100 * relative):.17g}", f"{truth.epsilon:.17g}"
    elif how == "relation":  # replacing a record costs more than adding one
        data["neighboring_relation"], data["upper"] = "REPLACE_ONE", f"{truth.epsilon:.17g}"
        if truth.relation == "REPLACE_ONE" or "Gaussian" not in json.dumps(data["event"]):
            return tampered(generator)
    else:  # one more use of anything costs more
        data["event"] = {"type": "ComposedDpEvent", "events": [data["event"], {"type": "GaussianDpEvent", "noise_multiplier": 3.0}]}
        data["upper"] = f"{truth.epsilon:.17g}"
    for direction in ("remove", "add"):
        if direction in data["hints"] and generator.random() < 0.5:
            _shake(data["hints"][direction], generator)
    return json.dumps(data), end, how


def _shake(hint: dict[str, Any], generator: random.Random) -> None:
    """Any hints, mostly of the right kind and near good ones."""
    for name in list(hint):
        if name in FLOATS and generator.random() < 0.4:
            hint[name] = hint[name] * generator.choice((0.0, 0.01, 0.3, 0.9, 1.1, 3.0, 30.0, -1.0))
        elif name in ("last", "nodes", "cells") and generator.random() < 0.4:
            hint[name] = max(0, int(hint[name] * generator.choice((0.0, 0.1, 0.5, 1.5, 2.0))))
    if generator.random() < 0.2:
        hint[generator.choice(FLOATS)] = generator.choice((0.0, 0.1, 1.0, 5.0))
    if generator.random() < 0.2 and "step" in hint:
        hint["rare"], hint["split"], hint["calm"] = True, 10 ** generator.uniform(-3, 1), 10 ** generator.uniform(-1, 1)
        hint.pop("cells", None)
    if generator.random() < 0.1:
        hint["below"] = not hint.get("below", False)
    if "last" in hint:
        hint["last"] = min(hint["last"], 3000)
