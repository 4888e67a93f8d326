"""Events as JSON: exact round trips, and one sentence for everything else."""

import decimal
import fractions
import inspect
import json
import math
import pathlib
import random
import re
import sys
import time

import attr
import fuzz_serialization
import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_edgeworth.events import batch_events, json_fields, own_events, serialization
from dp_edgeworth.events.serialization import EventFormatError, from_json, register_event, to_json

GAUSSIAN = dp_event.GaussianDpEvent(1.0)
HEADER = '{"format": "dp-edgeworth-event", "version": 1, "event": '
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "event-json.md"

EVENTS = [
    own_events.ProfileDpEvent([0.0, 0.5, 1.0], [0.3, 0.1, 0.0]),
    own_events.RenyiDpEvent([2.0, 4.0], [0.1, 0.2]),
    dp_event.DpEvent(),
    dp_event.NoOpDpEvent(),
    dp_event.NonPrivateDpEvent(),
    dp_event.UnsupportedDpEvent(),
    dp_event.RandomizedResponseDpEvent(0.0, 1),
    dp_event.RandomizedResponseDpEvent(1, 10**100),
    dp_event.GaussianDpEvent(0.1 + 0.2),
    dp_event.GaussianDpEvent(5e-324),
    dp_event.GaussianDpEvent(-0.0),
    dp_event.GaussianDpEvent(1),
    dp_event.GaussianDpEvent(10**400),
    dp_event.GaussianDpEvent(10**640 - 1),
    dp_event.LaplaceDpEvent(math.inf),
    dp_event.DiscreteLaplaceDpEvent(0.0, 0),
    dp_event.SelfComposedDpEvent(GAUSSIAN, 10**15),
    dp_event.ComposedDpEvent([]),
    dp_event.ComposedDpEvent([GAUSSIAN, dp_event.ComposedDpEvent([GAUSSIAN])]),
    dp_event.ComposedDpEvent((GAUSSIAN, dp_event.ComposedDpEvent(()))),
    dp_event.PoissonSampledDpEvent(1 - 2**-53, GAUSSIAN),
    dp_event.PoissonSampledDpEvent(0, dp_event.NoOpDpEvent()),
    dp_event.SampledWithReplacementDpEvent(1, 5, GAUSSIAN),
    dp_event.SampledWithoutReplacementDpEvent(5, 5, GAUSSIAN),
    dp_event.SampledWithoutReplacementDpEvent(1, 0, GAUSSIAN),
    dp_event.SingleEpochTreeAggregationDpEvent(0.0, 0),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, [5, 0]),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, (5,)),
    dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 1.0, math.inf),
    dp_event.MixtureOfGaussiansDpEvent(1.0, [0, 1.0, 2], [0.25, 0.5, 0.25]),
    dp_event.MixtureOfGaussiansDpEvent(0.0, (0.0, math.inf), (0.3, 0.7)),
    dp_event.MixtureOfGaussiansDpEvent(1.0, [-1.0, 1.0], [0, 1]),
    dp_event.ZCDpEvent(0.5),
    dp_event.ZCDpEvent(0.5, math.inf),
    dp_event.TruncatedSubsampledGaussianDpEvent(0, 0.0, 0, 0.0),
    dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 150, 1.3),
    batch_events.RandomAllocationDpEvent(GAUSSIAN, 0, 1),
    batch_events.RandomAllocationDpEvent(GAUSSIAN, 3, 10),
    batch_events.ShuffledBatchesDpEvent(GAUSSIAN, 7),
    own_events.AdditiveNoiseDpEvent("logistic"),
    own_events.AdditiveNoiseDpEvent("gennorm", {"scale": 2, "beta": 1.5, "loc": -math.inf}, 0.5),
    own_events.PllrMomentsDpEvent([0.5, 1.0, -0.2, math.inf], (-0.5, 1.0, 0.2, 3)),
    own_events.PllrMomentsDpEvent([0.5, 1.0, 0.0, 3.0], (-0.5, 1.0, 0.0, 3.0), 1.6, 0.0),
]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class _UserDpEvent(dp_event.DpEvent):
    payload: object = None
    other: object = 1.0

    def __attrs_post_init__(self) -> None:
        if self.other == "bad":
            raise RuntimeError("two\nlines, é")


register_event("user/event", _UserDpEvent)


def _same(left: object, right: object) -> bool:
    """Equal, and with the same types and signs of zero."""
    return left == right and repr(left) == repr(right)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_round_trip(event):
    text = to_json(event)
    assert _same(from_json(text), event)
    assert _same(from_json(text.encode()), event)
    assert _same(from_json(json.dumps(json.loads(text), indent=2)), event)
    assert text.isascii() and not re.search("NaN|Infinity", text)


def test_every_class_is_listed_documented_and_tried():
    defined = {
        name
        for module in (dp_event, own_events, batch_events)
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, dp_event.DpEvent)
    }
    assert defined <= set(json_fields.LISTED)
    assert defined == {type(event).__name__ for event in EVENTS}
    documentation = DOCS.read_text()
    assert [name for name in json_fields.LISTED if f"`{name}`" not in documentation] == []


def test_documented_documents_are_read():
    documents = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(documents) >= 2
    for document in documents:
        event = from_json(document)
        assert _same(from_json(to_json(event)), event)


@pytest.mark.parametrize(
    ("name", "fields", "values"),
    [
        ("EpsilonDeltaDpEvent", ["epsilon", "delta"], (math.inf, 1e-300)),
        ("ExponentialMechanismDpEvent", ["epsilon"], (0.5,)),
        ("PermuteAndFlipDpEvent", ["epsilon"], (0.0,)),
        ("DiscreteGaussianDpEvent", ["sigma", "sensitivity", "dimension"], (10.0, 1.5, None)),
        ("DiscreteGaussianDpEvent", ["sigma", "sensitivity", "dimension"], (10.0, 0.0, 1)),
    ],
)
def test_classes_of_the_main_branch(monkeypatch, name, fields, values):
    if hasattr(dp_event, name):
        cls = getattr(dp_event, name)
    else:
        with pytest.raises(EventFormatError, match=rf"^\$\.event\.type: must be .* Found \"{name}\"\.$"):
            from_json(f'{HEADER}{{"type": "{name}"}}}}')
        cls = attr.make_class(name, fields, bases=(dp_event.DpEvent,), frozen=True, slots=True)
        monkeypatch.setattr(dp_event, name, cls, raising=False)
    assert from_json(to_json(cls(*values))) == cls(*values)
    with pytest.raises(EventFormatError, match=f"^\\$.event.{fields[-1]}: must be "):
        to_json(cls(*values[:-1], -1))


@pytest.mark.parametrize(
    ("given_event", "plain"),
    [
        (dp_event.GaussianDpEvent(np.float64(0.1)), dp_event.GaussianDpEvent(0.1)),
        (dp_event.GaussianDpEvent(np.array(0.1)), dp_event.GaussianDpEvent(0.1)),
        (dp_event.GaussianDpEvent(np.float32(0.1)), dp_event.GaussianDpEvent(0.10000000149011612)),
        (dp_event.GaussianDpEvent(np.longdouble(0.1)), dp_event.GaussianDpEvent(0.1)),
        (dp_event.GaussianDpEvent(np.array(np.inf)), dp_event.GaussianDpEvent(math.inf)),
        (dp_event.GaussianDpEvent(decimal.Decimal("0.5")), dp_event.GaussianDpEvent(0.5)),
        (dp_event.GaussianDpEvent(fractions.Fraction(1, 4)), dp_event.GaussianDpEvent(0.25)),
        (dp_event.SelfComposedDpEvent(GAUSSIAN, np.int64(7)), dp_event.SelfComposedDpEvent(GAUSSIAN, 7)),
        (dp_event.SelfComposedDpEvent(GAUSSIAN, np.array(7)), dp_event.SelfComposedDpEvent(GAUSSIAN, 7)),
        (
            dp_event.MixtureOfGaussiansDpEvent(1.0, np.array([0.0, 1.0]), (np.float64(0.5), 0.5)),
            dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], (0.5, 0.5)),
        ),
        (
            dp_event.SingleEpochTreeAggregationDpEvent(1.0, np.array([3, 4])),
            dp_event.SingleEpochTreeAggregationDpEvent(1.0, [3, 4]),
        ),
    ],
)
def test_numpy_and_exact_numbers_are_written_plainly(given_event, plain):
    assert _same(from_json(to_json(given_event)), plain)


def _nested(depth, wrap):
    event = GAUSSIAN
    for _ in range(depth):
        event = wrap(event)
    return event


@pytest.mark.parametrize(
    ("wrap", "comparable"),  # attrs compares by recursion, which limits the depth
    [
        (lambda event: dp_event.ComposedDpEvent([event]), 200),
        (lambda event: dp_event.ComposedDpEvent((event,)), 200),
        (lambda event: dp_event.PoissonSampledDpEvent(0.5, event), 200),
        (lambda event: _UserDpEvent({"a": [event]}), 100),
    ],
)
def test_nesting(wrap, comparable):
    assert from_json(to_json(_nested(comparable, wrap))) == _nested(comparable, wrap)
    text = to_json(_nested(200, wrap))
    assert to_json(from_json(text)) == text
    with pytest.raises(EventFormatError, match=r": must be nested at most 1000 deep\. Found more\.$"):
        to_json(_nested(1000, wrap))


def test_deepest_document_and_little_stack_left():
    deepest = _nested(998, lambda event: dp_event.SelfComposedDpEvent(event, 2))
    text = to_json(deepest)

    def with_stack_used(frames):
        if frames:
            return with_stack_used(frames - 1)
        return to_json(from_json(text))

    used = len(inspect.stack())
    assert with_stack_used(sys.getrecursionlimit() - used - 60) == text
    deeper = text.replace(
        '{"type": "Gau',
        '{"type": "SelfComposedDpEvent", "count": 1, "event": {"type": "Gau',
    )
    with pytest.raises(EventFormatError, match="nested at most 1000 deep"):
        from_json(deeper + "}")


_reals = st.one_of(st.floats(min_value=0), st.integers(0, 10**30))
_probabilities = st.floats(0, 1)
_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8")).filter(lambda text: text not in ("inf", "-inf")),
        st.sampled_from(EVENTS),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(
            st.text(st.characters(codec="utf-8")).filter(lambda key: key not in ("type", "tuple")),
            inner,
        ),
    ),
    max_leaves=8,
)
_leaves = st.one_of(
    st.sampled_from(EVENTS),
    st.builds(dp_event.GaussianDpEvent, _reals),
    st.builds(dp_event.LaplaceDpEvent, _reals),
    st.builds(dp_event.DiscreteLaplaceDpEvent, _reals, st.integers(0, 10**20)),
    st.builds(dp_event.RandomizedResponseDpEvent, _probabilities, st.integers(1, 10**20)),
    st.builds(dp_event.ZCDpEvent, _reals, _reals),
    st.builds(dp_event.SingleEpochTreeAggregationDpEvent, _reals, st.lists(st.integers(0, 9), min_size=1)),
    st.builds(_UserDpEvent, _values, _values.filter(lambda value: value != "bad")),
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(dp_event.ComposedDpEvent, st.lists(inner, max_size=5)),
        st.builds(dp_event.ComposedDpEvent, st.lists(inner, max_size=5).map(tuple)),
        st.builds(dp_event.SelfComposedDpEvent, inner, st.integers(1, 10**12)),
        st.builds(dp_event.PoissonSampledDpEvent, _probabilities, inner),
        st.builds(dp_event.RepeatAndSelectDpEvent, inner, st.floats(1, 1e9), _reals),
        st.builds(_UserDpEvent, inner, st.tuples(inner)),
    ),
)


@settings(deadline=None)
@given(_trees)
def test_round_trip_of_random_trees(event):
    assert _same(from_json(to_json(event)), event)


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(),
        st.text(),
        st.recursive(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.floats(),
                st.text(),
                st.sampled_from(json_fields.LISTED),
            ),
            lambda inner: st.one_of(
                st.lists(inner),
                st.dictionaries(st.sampled_from(["type", "tuple", *json_fields.KINDS]), inner),
            ),
        ).map(lambda value: f"{HEADER}{json.dumps(value)}}}"),
    )
)
def test_anything_gives_an_event_or_one_sentence(text):
    try:
        event = from_json(text)
    except EventFormatError as error:
        assert re.fullmatch(r"\$[^\n]*: must [^\n]*\.", str(error)), error
    else:
        assert to_json(from_json(to_json(event))) == to_json(event)


def _in_event(fields):
    return f"{HEADER}{{{fields}}}}}"


def _gaussian(value):
    return _in_event(f'"type": "GaussianDpEvent", "noise_multiplier": {value}')


NOT_LISTED = "$.event: must be of a class that is listed or registered with `register_event`. Found "
NUMBER = "$.event.noise_multiplier: must be a number >= 0. Found "
HOSTILE = {
    "issue 6": (
        _in_event(
            '"type": "ComposedDpEvent", "events": ['
            + '{"type": "NoOpDpEvent"}, ' * 3
            + '{"type": "SelfComposedDpEvent", "count": 2, "event": '
            '{"type": "GaussianDpEvent", "noise_multiplier": -1}}]'
        ),
        "$.event.events[3].event.noise_multiplier: must be a number >= 0. Found -1.",
    ),
    "number as string": (_gaussian('"1.0"'), NUMBER + '"1.0".'),
    "boolean": (_gaussian("true"), NUMBER + "true."),
    "null": (_gaussian("null"), NUMBER + "null."),
    "array": (_gaussian("[1]"), NUMBER + "a `list`."),
    "-inf": (_gaussian('"-inf"'), NUMBER + "-inf."),
    "Infinity string": (_gaussian('"Infinity"'), NUMBER + '"Infinity".'),
    "NaN string": (_gaussian('"NaN"'), NUMBER + '"NaN".'),
    "long string": (_gaussian(f'"{"x" * 10**6}"'), NUMBER + f'"{"x" * 60}...".'),
    "NaN": (_gaussian("NaN"), '$.event.noise_multiplier: must be a number, "inf" or "-inf". Found NaN.'),
    "-Infinity": (
        _gaussian("-Infinity"),
        '$.event.noise_multiplier: must be a number, "inf" or "-inf". Found -Infinity.',
    ),
    "overflow": (
        _gaussian("1e400"),
        "$.event.noise_multiplier: must be in the range of a double. Found 1e400.",
    ),
    "underflow": (
        _gaussian("1e-400"),
        "$.event.noise_multiplier: must be in the range of a double. Found 1e-400.",
    ),
    "digits": (
        _gaussian("9" * 10**6),
        "$.event.noise_multiplier: must be a number of at most 640 digits. Found 1000000.",
    ),
    "decimals": (
        _gaussian("0." + "0" * 10**6 + "1"),
        "$.event.noise_multiplier: must be a number of at most 640 digits. Found 1000003.",
    ),
    "probability": (
        _in_event(
            '"type": "PoissonSampledDpEvent", "sampling_probability": 1.5, "event": {"type": "NoOpDpEvent"}',
        ),
        "$.event.sampling_probability: must be a number in [0, 1]. Found 1.5.",
    ),
    "no event": (
        _in_event('"type": "PoissonSampledDpEvent", "sampling_probability": 1, "event": {"a": 1}'),
        '$.event.event: must be an event, an object with a "type". Found a `dict`.',
    ),
    "float count": (
        _in_event('"type": "SelfComposedDpEvent", "count": 2.0, "event": {"type": "NoOpDpEvent"}'),
        "$.event.count: must be an integer >= 1. Found 2.0.",
    ),
    "count zero": (
        _in_event('"type": "SelfComposedDpEvent", "count": 0, "event": {"type": "NoOpDpEvent"}'),
        "$.event.count: must be an integer >= 1. Found 0.",
    ),
    "infinite count": (
        _in_event('"type": "SelfComposedDpEvent", "count": "inf", "event": {"type": "NoOpDpEvent"}'),
        "$.event.count: must be an integer >= 1. Found inf.",
    ),
    "sample larger than the dataset": (
        _in_event(
            '"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 5, "sample_size": 6, '
            '"event": {"type": "NoOpDpEvent"}'
        ),
        "$.event.sample_size: must be at most `source_dataset_size`, 5. Found 6.",
    ),
    "no steps": (
        _in_event('"type": "SingleEpochTreeAggregationDpEvent", "noise_multiplier": 1, "step_counts": []'),
        "$.event.step_counts: must be an integer >= 0 or a non-empty array of them. Found 0 entries.",
    ),
    "step": (
        _in_event(
            '"type": "SingleEpochTreeAggregationDpEvent", "noise_multiplier": 1, "step_counts": [1, 0.5]',
        ),
        "$.event.step_counts[1]: must be an integer >= 0. Found 0.5.",
    ),
    "mixture sum": (
        _in_event(
            '"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1, "sensitivities": [1, 2], '
            '"sampling_probs": [0.5, 0.25]'
        ),
        "$.event.sampling_probs: must sum to 1. Found 0.75.",
    ),
    "mixture lengths": (
        _in_event(
            '"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1, "sensitivities": [1, 2], '
            '"sampling_probs": [1]'
        ),
        "$.event.sampling_probs: must be as many as `sensitivities`. Found 1 and 2.",
    ),
    "mixture sign": (
        _in_event(
            '"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1, "sensitivities": [1, -2], '
            '"sampling_probs": [0.5, 0.5]'
        ),
        "$.event.sensitivities[1]: must be a number >= 0. Found -2.",
    ),
    "cumulants": (
        _in_event('"type": "PllrMomentsDpEvent", "x_cumulants": [1, 2, 3], "y_cumulants": [1, 2, 3, 4]'),
        "$.event.x_cumulants: must be an array of 4 numbers. Found 3 entries.",
    ),
    "parameters": (
        _in_event('"type": "AdditiveNoiseDpEvent", "distribution": "norm", "parameters": {"a b": "1"}'),
        '$.event.parameters["a b"]: must be a number. Found "1".',
    ),
    "unknown class": (
        _in_event('"type": "os.system", "command": "touch /tmp/owned"'),
        '$.event.type: must be the name of a listed or registered event class. Found "os.system".',
    ),
    "class of the module": (
        _in_event('"type": "DpEventNamedTuple"'),
        '$.event.type: must be the name of a listed or registered event class. Found "DpEventNamedTuple".',
    ),
    "type is no string": (
        _in_event('"type": ["GaussianDpEvent"]'),
        "$.event.type: must be the name of a listed or registered event class. Found a `list`.",
    ),
    "named tuple": (
        _in_event('"module_name": "os", "class_name": "system"'),
        '$.event: must be an event, an object with a "type". Found a `dict`.',
    ),
    "unknown field": (
        _in_event('"type": "GaussianDpEvent", "noise_multiplier": 1, "__class__": 2'),
        '$.event.__class__: must be a field of `GaussianDpEvent`: noise_multiplier. Found "__class__".',
    ),
    "missing field": (
        _in_event('"type": "GaussianDpEvent"'),
        "$.event: must have every field of `GaussianDpEvent`. Found no `noise_multiplier`.",
    ),
    "duplicate": (
        _in_event('"type": "GaussianDpEvent", "noise_multiplier": 1, "noise_multiplier": 2'),
        '$.event: must have each member once. Found "noise_multiplier" twice.',
    ),
    "duplicate header": (
        '{"version": 1, "version": 1}',
        '$: must have each member once. Found "version" twice.',
    ),
    "surrogate": (
        _in_event('"type": "user/event", "payload": "\\ud800"'),
        '$.event.payload: must be Unicode text without lone surrogates. Found "\\ud800".',
    ),
    "surrogate key": (
        _in_event('"\\udfff": 1'),
        '$.event: must be Unicode text without lone surrogates. Found "\\udfff".',
    ),
    "surrogate in str": (
        '"\ud800"',
        '$: must be Unicode text without lone surrogates. Found "\\"\\ud800\\"".',
    ),
    "utf-8": (b'{"format": "\xff"}', "$: must be UTF-8. Found an invalid byte at offset 12."),
    "utf-16": ("{}".encode("utf-16"), "$: must be UTF-8. Found an invalid byte at offset 0."),
    "no text": (3, "$: must be str or bytes. Found 3."),
    "nothing": ("", "$: must be valid JSON. Found: Expecting value, at line 1, column 1."),
    "list": ("[]", "$: must be an object with the members format, version and event. Found a `list`."),
    "number": ("1", "$: must be an object with the members format, version and event. Found 1."),
    "no header": (
        '{"type": "NoOpDpEvent"}',
        "$: must be an object with the members format, version and event. Found a `NoOpDpEvent`.",
    ),
    "format": ('{"format": "x"}', '$.format: must be "dp-edgeworth-event". Found "x".'),
    "version": (
        '{"format": "dp-edgeworth-event", "version": 2, "event": {"type": "New"}}',
        "$.version: must be 1. Found 2.",
    ),
    "version true": (
        '{"format": "dp-edgeworth-event", "version": true}',
        "$.version: must be 1. Found true.",
    ),
    "truncated": (
        HEADER + '{"type": "NoOp',
        "$.event.type: must be valid JSON. Found: Unterminated string starting at, at line 1, column 66.",
    ),
    "trailing comma": (
        '{"format": "dp-edgeworth-event",\n}',
        "$: must be valid JSON. Found: Expecting a member name in double quotes, at line 2, column 1.",
    ),
    "extra data": (_gaussian("1") + "1", "$: must be valid JSON. Found: Extra data, at line 1, column 108."),
    "single quotes": (
        "{'a': 1}",
        "$: must be valid JSON. Found: Expecting a member name in double quotes, at line 1, column 2.",
    ),
    "tuple": (_in_event('"tuple": 1'), "$.event.tuple: must be an array. Found 1."),
    "too long": (
        b" " * (serialization.MAX_BYTES + 1),
        "$: must be at most 16777216 bytes (`max_bytes`). Found 16777217.",
    ),
    "too long in UTF-8": (
        "é" * (serialization.MAX_BYTES // 2 + 1),
        "$: must be at most 16777216 bytes (`max_bytes`). Found 16777218.",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_document(name):
    text, sentence = HOSTILE[name]
    with pytest.raises(EventFormatError) as caught:
        from_json(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("levels", [10_000, 1_000_000])
@pytest.mark.parametrize("unit", ["[", '{"event": ', '{"type": "ComposedDpEvent", "events": ['])
@pytest.mark.parametrize("start", ["", HEADER])
def test_hostile_nesting(levels, unit, start):
    levels = min(levels, (serialization.MAX_BYTES - 100) // len(unit))
    begun = time.process_time()
    with pytest.raises(
        EventFormatError,
        match=r"^\$.*: must be nested at most 1000 deep\. Found more\.$",
    ) as caught:
        from_json(start + unit * levels)
    assert time.process_time() - begun < 2 and len(str(caught.value)) < 1000


def test_time_is_linear_in_the_text():
    def seconds(copies):
        text = _in_event(
            '"type": "ComposedDpEvent", "events": [' + '{"type": "NoOpDpEvent"}, ' * copies + "0]",
        )
        begun = time.process_time()
        with pytest.raises(EventFormatError, match=rf"^\$.event.events\[{copies}\]: must be an event"):
            from_json(text)
        return time.process_time() - begun

    assert min(seconds(20_000) for _ in range(2)) < 40 * min(seconds(2_000) for _ in range(3))


_audited: list[str] = []
_auditing = False


def _audit(name, _arguments):
    if _auditing:
        _audited.append(name)


sys.addaudithook(_audit)


def test_no_code_is_run_and_nothing_is_imported():
    global _auditing
    names = [
        "os.system",
        "builtins.eval",
        "subprocess:Popen",
        "__import__('os')",
        "dp_accounting.dp_event",
        "attr",
    ]
    texts = [_in_event(f'"type": {json.dumps(name)}, "module_name": "this"') for name in names]
    modules = set(sys.modules)
    for text in texts:
        _auditing = True
        try:
            from_json(text)
        except EventFormatError as error:
            refused = error
        finally:
            _auditing = False
        assert "type: must be the name" in str(refused)
    assert set(sys.modules) == modules
    assert not {"import", "exec", "compile", "open", "os.system", "subprocess.Popen"} & set(_audited)


def _cyclic():
    event = dp_event.ComposedDpEvent([GAUSSIAN])
    event.events.append(dp_event.SelfComposedDpEvent(event, 2))
    return event


def _cyclic_payload():
    payload: list[object] = []
    payload.append({"a": (payload,)})
    return _UserDpEvent(payload)


def _doubled(times):
    event = GAUSSIAN
    for _ in range(times):
        event = dp_event.ComposedDpEvent([event, event])
    return event


@attr.s(frozen=True)
class _Unregistered(dp_event.DpEvent):
    pass


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (1, '$.event: must be an event, an object with a "type". Found 1.'),
        (
            _Unregistered(),
            NOT_LISTED + "a `_Unregistered`.",
        ),
        (dp_event.GaussianDpEvent(math.nan), NUMBER + "nan."),
        (dp_event.GaussianDpEvent(np.float64("nan")), NUMBER + "nan."),
        (dp_event.GaussianDpEvent("inf"), NUMBER + '"inf".'),
        (dp_event.GaussianDpEvent(True), NUMBER + "true."),
        (dp_event.GaussianDpEvent(np.True_), NUMBER + "true."),
        (dp_event.GaussianDpEvent(np.ones(2)), NUMBER + "a `list`."),
        (dp_event.GaussianDpEvent(fractions.Fraction(1, 3)), NUMBER + "a `Fraction`."),
        (dp_event.GaussianDpEvent(fractions.Fraction(10**400, 3)), NUMBER + "a `Fraction`."),
        (dp_event.GaussianDpEvent(decimal.Decimal("sNaN")), NUMBER + "a `Decimal`."),
        (dp_event.GaussianDpEvent(1j), NUMBER + "a `complex`."),
        (
            dp_event.SelfComposedDpEvent(GAUSSIAN, 10**5000),
            "$.event.count: must be a value that JSON can hold exactly. Found an integer of 16610 bits.",
        ),
        (
            dp_event.ComposedDpEvent([GAUSSIAN, 3]),
            '$.event.events[1]: must be an event, an object with a "type". Found 3.',
        ),
        (
            _cyclic(),
            "$.event.events[1].event: must not contain itself. Found the same `ComposedDpEvent` further up.",
        ),
        (
            _cyclic_payload(),
            "$.event.payload[0].a.tuple[0]: must not contain itself. Found the same `list` further up.",
        ),
        (
            _UserDpEvent(object()),
            "$.event.payload: must be a value that JSON can hold exactly. Found a `object`.",
        ),
        (_UserDpEvent("inf"), '$.event.payload: must be a value that JSON can hold exactly. Found "inf".'),
        (
            _UserDpEvent("\ud800"),
            '$.event.payload: must be Unicode text without lone surrogates. Found "\\ud800".',
        ),
        (
            _UserDpEvent({"type": 1}),
            '$.event.payload: must have strings but "type" and "tuple" as keys. Found "type".',
        ),
        (_UserDpEvent({1: 1}), '$.event.payload: must have strings but "type" and "tuple" as keys. Found 1.'),
    ],
)
def test_events_that_cannot_be_written(event, sentence):
    with pytest.raises(EventFormatError) as caught:
        to_json(event)
    assert str(caught.value) == sentence


def test_shared_events_are_written_each_time_up_to_max_bytes():
    assert from_json(to_json(_doubled(8))) == _doubled(8)
    with pytest.raises(
        EventFormatError,
        match=r": must take at most 100000 bytes \(`max_bytes`\)\. Found more\.$",
    ):
        to_json(_doubled(60), max_bytes=100_000)


def test_max_bytes():
    text = to_json(GAUSSIAN)
    assert to_json(GAUSSIAN, max_bytes=len(text)) == text
    assert from_json(text, max_bytes=len(text)) == GAUSSIAN
    with pytest.raises(EventFormatError):
        from_json(text, max_bytes=len(text) - 1)
    with pytest.raises(EventFormatError):
        to_json(GAUSSIAN, max_bytes=len(text) - 1)


def test_byte_order_mark_and_order_of_members():
    assert from_json(b"\xef\xbb\xbf" + to_json(GAUSSIAN).encode()) == GAUSSIAN
    members = '"event": {"noise_multiplier": 1.0, "type": "GaussianDpEvent"}, "version": 1'
    assert from_json(f'{{{members}, "format": "dp-edgeworth-event"}}') == GAUSSIAN


def test_defaults_may_be_left_out():
    assert from_json(_in_event('"type": "ZCDpEvent", "rho": 0.5')) == dp_event.ZCDpEvent(0.5)
    assert from_json(_in_event('"type": "user/event"')) == _UserDpEvent()


def test_registered_class():
    payload = [1, -0.0, "é\0", None, True, (1, ((), [])), {"": {"a.b": (GAUSSIAN,)}}, math.inf]
    assert _same(from_json(to_json(_UserDpEvent(payload))), _UserDpEvent(payload))
    with pytest.raises(
        EventFormatError, match=r"^\$\.event: must be what `user/event` takes\. Found RuntimeError 'two lin"
    ):
        from_json(_in_event('"type": "user/event", "other": "bad"'))


@pytest.mark.parametrize(
    ("name", "cls", "message"),
    [
        ("", _Unregistered, "`name` must be 1 to 200 printable ASCII characters"),
        ("a\n", _Unregistered, "`name` must be 1 to 200 printable ASCII characters"),
        (1, _Unregistered, "`name` must be 1 to 200 printable ASCII characters"),
        ("x", int, "`cls` must be a subclass of `DpEvent` decorated with `attr.s`"),
        (
            "x",
            type("Plain", (dp_event.DpEvent,), {}),
            "`cls` must be a subclass of `DpEvent` decorated with `attr.s`",
        ),
        (
            "x",
            attr.make_class("Private", ["_a"], bases=(dp_event.DpEvent,)),
            "public init fields only. Found `_a`",
        ),
        (
            "x",
            attr.make_class("Typed", ["type"], bases=(dp_event.DpEvent,)),
            "public init fields only. Found `type`",
        ),
        ("GaussianDpEvent", _Unregistered, "`GaussianDpEvent` must be new"),
        ("user/event", _Unregistered, "`user/event` must be new"),
        ("other", _UserDpEvent, "`other` must be new. Found `user/event`"),
        ("other", dp_event.GaussianDpEvent, "`other` must be new. Found `GaussianDpEvent`"),
    ],
)
def test_register_event_refuses(name, cls, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        register_event(name, cls)
    assert "x" not in serialization._registered and "other" not in serialization._registered


def test_register_event_again(monkeypatch):
    monkeypatch.setattr(serialization, "_registered", dict(serialization._registered))
    register_event("user/event", _UserDpEvent)
    again = attr.make_class("_UserDpEvent", ["x"], bases=(dp_event.DpEvent,), frozen=True)
    register_event("user/event", again)
    assert from_json(to_json(again(1))) == again(1)
    with pytest.raises(EventFormatError, match="must be of a class that is listed or registered"):
        to_json(_UserDpEvent())


CORPUS = sorted(fuzz_serialization.CORPUS.iterdir())


def test_corpus_is_small():
    assert 10 <= len(CORPUS) <= 50 and sum(path.stat().st_size for path in CORPUS) < 200_000


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_corpus(path):
    data = path.read_bytes()
    fuzz_serialization.one_input(data)
    if path.name.startswith("valid"):
        from_json(data)
    if path.name.startswith("refused"):
        with pytest.raises(EventFormatError):
            from_json(data)


def test_integers_of_640_digits_under_the_least_limit_of_the_interpreter():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        for count in (10**640 - 1, 1 - 10**640):
            assert from_json(to_json(_UserDpEvent(count))) == _UserDpEvent(count)
        for count in (10**640, -(10**640)):
            with pytest.raises(EventFormatError, match="must be a value that JSON can hold exactly"):
                to_json(_UserDpEvent(count))
    finally:
        sys.set_int_max_str_digits(limit)


def test_a_little_fuzzing():
    rng, inputs = random.Random(1), [path.read_bytes() for path in CORPUS]
    for _ in range(1000):
        fuzz_serialization.one_input(fuzz_serialization.mutated(rng.choice(inputs), inputs, rng))
        fuzz_serialization.one_input(rng.randbytes(30))
