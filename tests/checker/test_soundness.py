"""No false claim is proved, whatever the hints: tampered certificates and random hints. tests/checker/long_soundness.py runs ten
thousand."""

import json
import random

import pytest
import tampering


@pytest.mark.parametrize("number", range(len(tampering.TRUTHS)))
def test_the_true_claim_is_proved(number):
    truth = tampering.TRUTHS[number]
    result = tampering.verify(truth.certificate())
    assert result.upper == result.lower == "proved", result.reasons


def test_no_false_claim_is_proved():
    generator = random.Random(1)
    verdicts = [tampering.judge(*tampering.tampered(generator)) for _ in range(150)]
    assert not [verdict for verdict in verdicts if verdict.wrong]
    assert {"refuted", "undecided"} <= {verdict.end for verdict in verdicts}


def test_the_judge_would_notice():
    """A claim that is true, declared false: the judge calls it wrong."""
    truth = tampering.TRUTHS[0]
    assert tampering.judge(json.dumps(truth.certificate()), "upper", "as it is").wrong
