"""What a notebook, a terminal and a list of answers show: one line, a page of text, a piece of HTML."""

from __future__ import annotations

import dp_accounting as dpa
import pytest

import dp_edgeworth as de

ACCOUNTANT = de.EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(2.0))


@pytest.mark.parametrize(("make", "words"), [
    (lambda: ACCOUNTANT, "<EdgeworthIntervalAccountant ADD_OR_REMOVE_ONE"),
    (lambda: de.ApproximateEdgeworthAccountant().compose(dpa.GaussianDpEvent(2.0)), "order=2, tilted=False: Gaussian(2)>"),
    (lambda: ACCOUNTANT.statement(target_delta=1e-5), "delta = 1e-05)-differential privacy, certified>"),
    (lambda: ACCOUNTANT.explain(target_delta=1e-5), "<EventReport: epsilon = "),
    (lambda: ACCOUNTANT.curves(points=11), "<PrivacyCurves: 11 points, epsilon up to "),
    (lambda: de.sweep(noise_multiplier=[1.0, 2.0], sampling_probability=0.1, steps=10, target_delta=1e-5),
     "<SweepResult: 1 x 2 x 1 points, epsilon at delta = 1e-05 (ADD_OR_REMOVE_ONE; certified upper ends)>"),
    (lambda: de.compare_sampling(batch_size=10, dataset_size=100, epochs=1, noise_multiplier=2.0, target_delta=1e-5),
     "<SamplingComparison: batches of 10 of 100 records, 1 epochs, delta 1e-05>"),
])
def test_every_answer_is_readable(make, words):
    answer = make()
    assert words in repr(answer) and "\n" not in repr(answer) and len(repr(answer)) < 200
    assert answer._repr_html_().startswith("<") and "array(" not in str(answer)
