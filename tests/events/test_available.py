"""With a dp-accounting that lacks five event classes (0.4.3) everything else works; simulated by taking them away before the import."""

import subprocess
import sys

import pytest

MISSING = ("DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent", "RandomizedResponseDpEvent", "TruncatedSubsampledGaussianDpEvent",
           "ZCDpEvent")
PRELUDE = f"""
import dp_accounting as dpa
from dp_accounting import dp_event
for name in {MISSING!r}:
    for module in (dpa, dp_event):
        if hasattr(module, name):
            delattr(module, name)
import dp_edgeworth
from dp_edgeworth.events import available
training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
"""


def run(code):
    return subprocess.run([sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, check=True).stdout


def test_answers_and_statements():
    out = run("print(dp_edgeworth.EdgeworthIntervalAccountant().compose(training).get_epsilon(1e-5))\n"
              "print(dp_edgeworth.epsilon_statement(training, 1e-5))")
    assert float(out.splitlines()[0]) == pytest.approx(10.053634770654, abs=1e-6) and "certified" in out


def test_missing_classes_are_unknown_types_and_cannot_be_made():
    out = run(f"""
for name in {MISSING!r}:
    try:
        dp_edgeworth.from_json('{{"format": "dp-edgeworth-event", "version": 1, "event": {{"type": "' + name + '"}}}}')
    except dp_edgeworth.EventFormatError as error:
        print(error)
    try:
        getattr(available, name)(1, 2)
    except TypeError as error:
        print(error)
""")
    assert out.count("$.event.type: must be the name of a listed") == len(MISSING)
    assert all(f"`{name}` needs a newer dp-accounting" in out for name in MISSING)


def test_placeholders_are_no_event_of_dp_accounting():
    code = "print(any(isinstance(training, getattr(available, name)) for name in dir(available) if name.endswith('Event')))"
    assert run(code) == "False\n"
