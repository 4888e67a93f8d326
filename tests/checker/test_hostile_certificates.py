"""Anything may be in a certificate: a sentence, in bounded time and memory, and nothing proved that should not be."""

import json
import time

import pytest
import tampering

from dp_edgeworth import checker

BASE = tampering.TRUTHS[0].certificate()
GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 1.0}


def refused(text):
    with pytest.raises(checker.InputError) as caught:
        checker.verify(text)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 700
    return sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        "null",
        "\ud800",
        b"\xff\xfe",
        "[" * 100_000,
        '{"format": "dp-edgeworth-certificate", "version": 1}',
        json.dumps({**BASE, "version": True}),
        json.dumps({**BASE, "version": 2}),
        json.dumps({**BASE, "more": 1}),
        json.dumps({**BASE, "given": 1e-5}),
        json.dumps({**BASE, "given": "nan"}),
        json.dumps({**BASE, "given": "-1e-5"}),
        json.dumps({**BASE, "given": "2"}),
        json.dumps({**BASE, "given": "0.9999", "lower": "0", "upper": "-5"}),  # delta(-5) is less, but no epsilon is negative
        json.dumps({**BASE, "quantity": "delta", "given": "1", "upper": "-1e-9"}),
        json.dumps({**BASE, "upper": "1e99999999"}),
        json.dumps({**BASE, "upper": "1/3"}),
        json.dumps({**BASE, "lower": "-inf"}),
        json.dumps({**BASE, "upper": None}),
        json.dumps({**BASE, "quantity": "mu"}),
        json.dumps({**BASE, "neighboring_relation": ["REPLACE_ONE"]}),
        json.dumps(BASE).replace("200", "NaN", 1),
        json.dumps(BASE).replace("200", "1e999", 1),
        json.dumps(BASE).replace("200", "9" * 5000, 1),
        json.dumps(BASE)[:-1] + ', "upper": "1"}',
    ],
)
def test_no_certificate(text):
    refused(text)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "GaussianDpEvent",
        {},
        {"type": 3},
        {"type": "GaussianDpEvent"},
        {"type": "GaussianDpEvent", "noise_multiplier": -1},
        {"type": "GaussianDpEvent", "noise_multiplier": "1"},
        {"type": "GaussianDpEvent", "noise_multiplier": True},
        {"type": "GaussianDpEvent", "noise_multiplier": 1.0, "sensitivity": 3},
        {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 0},
        {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 2.0},
        {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": True},
        {"type": "ComposedDpEvent", "events": GAUSSIAN},
        {"type": "PoissonSampledDpEvent", "sampling_probability": 1.5, "event": GAUSSIAN},
        {"type": "PoissonSampledDpEvent", "sampling_probability": 0.5},
        {"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1.0, "sensitivities": [1.0], "sampling_probs": [0.5]},
        {"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1.0, "sensitivities": [], "sampling_probs": []},
        {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 3, "sample_size": 4, "event": GAUSSIAN},
    ],
)
def test_bad_events_are_a_sentence(event):
    relation = "REPLACE_ONE" if isinstance(event, dict) and "sample_size" in event else "ADD_OR_REMOVE_ONE"
    refused(json.dumps({**BASE, "event": event, "neighboring_relation": relation}))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "AdditiveNoiseDpEvent", "distribution": "gennorm", "parameters": {}},
        {"type": "os.system"},
        {"type": "RandomAllocationDpEvent", "event": GAUSSIAN, "num_selected": 1, "num_steps": 9},
        {
            "type": "PoissonSampledDpEvent",
            "sampling_probability": 0.5,
            "event": {"type": "RandomizedResponseDpEvent", "noise_parameter": 0.5, "num_buckets": 2},
        },
        {"type": "GaussianDpEvent", "noise_multiplier": 1e-320},
        {"type": "LaplaceDpEvent", "noise_multiplier": 1e-300},
    ],
)
def test_what_has_no_proof_is_undecided_with_a_reason(event):
    result = checker.verify(json.dumps({**BASE, "event": {"type": "SelfComposedDpEvent", "count": 7, "event": event}}))
    assert result.upper == result.lower == "undecided" and result.reasons


BAD = [None, True, "1", [], {}, -1.0, 0.0, 1e300, -1e300, 1e-300, 10**30, -5, 0]


@pytest.mark.parametrize(
    "name",
    [
        "c",
        "step",
        "last",
        "low",
        "high",
        "reach",
        "nodes",
        "digits",
        "tau",
        "split",
        "turn",
        "below",
        "rare",
        "calm",
        "cells",
        "unknown",
    ],
)
def test_bad_hints_prove_nothing_and_take_no_time(name):
    """The upper end is false; a hint of any type and size leaves it refuted or undecided."""
    start = time.process_time()
    for value in BAD:
        hints = {**BASE["hints"], "remove": {**BASE["hints"]["remove"], name: value}}
        result = checker.verify(json.dumps({**BASE, "upper": "4.7", "hints": hints}))
        assert result.upper in ("refuted", "undecided")
        assert result.reasons
    assert time.process_time() - start < 60.0


@pytest.mark.parametrize("hints", [None, [], 3, {"remove": 7, "add": []}, {"bits": -5}, {"bits": 10**9}, {"bits": "many"}])
def test_hints_of_another_kind(hints):
    assert checker.verify(json.dumps({**BASE, "hints": hints})).upper == "undecided"


def test_hints_with_nan_are_a_sentence():
    refused(json.dumps({**BASE, "hints": {"remove": {"c": float("nan")}}}))


def test_ten_megabytes():
    """A long list of one leaf is read and merged; more than the limit is refused unread."""
    many = {"type": "ComposedDpEvent", "events": [GAUSSIAN] * 190_000}
    text = json.dumps({**BASE, "event": many, "upper": "1e6", "lower": "0"})
    assert 9e6 < len(text) < 16 * 2**20
    assert checker.verify(text).upper == "proved"
    assert "bytes" in refused(" " * (17 * 2**20))


def test_many_distinct_leaves_stop_in_time():
    leaves = [{"type": "PoissonSampledDpEvent", "sampling_probability": 0.01 + 1e-6 * k, "event": GAUSSIAN} for k in range(3000)]
    text = json.dumps({**BASE, "event": {"type": "ComposedDpEvent", "events": leaves}})
    start = time.process_time()
    result = checker.verify(text, most_seconds=1.0)
    assert result.upper == "undecided" and "more than 1 s" in " ".join(result.reasons)
    assert time.process_time() - start < 30.0


def test_many_bits_for_a_large_batch_stop_in_time():
    """The incomplete beta function at 4,096 bits took more than eight minutes here."""
    event = {"type": "TruncatedSubsampledGaussianDpEvent", "dataset_size": 10**7, "sampling_probability": 0.5,
             "truncated_batch_size": 5 * 10**6, "noise_multiplier": 1.0}
    start = time.process_time()
    hints = {"bits": 4096, "remove": BASE["hints"]["remove"]}
    result = checker.verify(json.dumps({**BASE, "event": {"type": "SelfComposedDpEvent", "count": 3, "event": event}, "hints": hints}))
    assert result.reasons and time.process_time() - start < 30.0


def test_many_leaves_of_many_losses_are_refused():
    """Forty million point masses in 2 MB of text."""
    leaves = [{"type": "DiscreteLaplaceDpEvent", "noise_parameter": 0.1 + k * 1e-6, "sensitivity": 1999} for k in range(19_000)]
    start = time.process_time()
    result = checker.verify(json.dumps({**BASE, "event": {"type": "ComposedDpEvent", "events": leaves}}))
    assert result.upper == "undecided" and "bits of losses" in " ".join(result.reasons)
    assert time.process_time() - start < 60.0


def test_one_leaf_of_many_terms_stops_in_time():
    """A quadrature rule of a mixture of 2,000 parts at 4,096 bits: the time is looked at within a leaf."""
    mixture = {"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1.0, "sensitivities": [k / 100 for k in range(2000)],
               "sampling_probs": [1 / 2000] * 2000}
    line = {"c": 1.5, "high": 4.0, "step": 0.2, "last": 200, "nodes": 512, "digits": 1000.0, "cells": 200}
    event = {"type": "SelfComposedDpEvent", "count": 3, "event": mixture}
    start = time.process_time()
    result = checker.verify(json.dumps({**BASE, "event": event, "hints": {"bits": 4096, "remove": line}}), most_seconds=1.0)
    assert result.upper == "undecided" and "more than 1 s" in " ".join(result.reasons)
    assert time.process_time() - start < 30.0


def test_a_long_line_of_many_bits_is_refused():
    hints = {"bits": 4096, "remove": {**BASE["hints"]["remove"], "last": 200_000}}
    result = checker.verify(json.dumps({**BASE, "hints": hints}))
    assert result.upper == "undecided" and "memory" in " ".join(result.reasons)


def test_the_sum_of_two_finite_parameters_is_not_infinite():
    """rho + xi overflows a double; the mechanism is private all the same, and its epsilon is below 1e400."""
    event = {"type": "ZCDpEvent", "rho": 1.7e308, "xi": 1.7e308}
    assert checker.verify(json.dumps({**BASE, "event": event, "lower": "1e400", "upper": "inf"})).lower != "proved"


def test_an_end_beyond_all_losses_needs_no_hint():
    """Five times randomised response with losses of log 4 at most: nothing is above 6.94, whatever becomes of the other end."""
    event = {"type": "SelfComposedDpEvent", "count": 5, "event": {"type": "RandomizedResponseDpEvent", "noise_parameter": 0.5,
             "num_buckets": 3}}
    text = {**BASE, "event": event, "neighboring_relation": "REPLACE_ONE", "lower": "6", "upper": "6.94", "hints": {}}
    result = checker.verify(json.dumps(text))
    assert (result.upper, result.lower) == ("proved", "undecided")


def test_progress_is_told():
    told = []
    checker.verify(json.dumps(BASE), told.append)
    assert told and told[0].startswith("leaf 1 of 1")


def test_deep_nesting():
    event = GAUSSIAN
    for _ in range(300):
        event = {"type": "SelfComposedDpEvent", "count": 1, "event": event}
    result = checker.verify(json.dumps({**BASE, "event": event, "lower": "0", "upper": "5"}))
    assert result.proved
