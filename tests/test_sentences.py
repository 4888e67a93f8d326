"""Wrong types in public functions get a sentence that names parameter, constraint and value (wrong numbers: the rooms' tests)."""

from __future__ import annotations

import importlib
import sys

import dp_accounting as dpa
import pytest

import dp_edgeworth as de

GAUSSIAN = dpa.GaussianDpEvent(1.0)
ACCOUNTANT = de.EdgeworthIntervalAccountant().compose(GAUSSIAN)
GRID = {"noise_multiplier": [1.0], "steps": [10], "sampling_probability": [0.1], "target_delta": 1e-5}
RISK = {"bracket": (0.1, 10.0), "target_advantage": 0.1}


@pytest.mark.parametrize(("call", "name", "found"), [
    (lambda: ACCOUNTANT.report(3), "path", "3"),
    (lambda: de.html_report(ACCOUNTANT, title=3), "title", "3"),
    (lambda: de.sweep(**GRID).to_csv(3), "path", "3"),
    (lambda: de.sweep(**GRID).plot(at=3), "at", "3"),
    (lambda: de.sweep(**GRID, certified="no"), "certified", "'no'"),
    (lambda: de.from_history(3), "history", "3"),
    (lambda: de.from_json("{}", max_bytes=None), "max_bytes", "None"),
    (lambda: de.to_json(GAUSSIAN, max_bytes="many"), "max_bytes", "'many'"),
    (lambda: de.calibrate_mechanism(3, **RISK), "make_event", "3"),
    (lambda: de.calibrate_mechanism(dpa.GaussianDpEvent, **{**RISK, "bracket": 3}), "bracket", "3"),
    (lambda: de.calibrate_mechanism(dpa.GaussianDpEvent, **{**RISK, "bracket": (1, 2, 3)}), "bracket", r"\(1, 2, 3\)"),
    (lambda: de.calibrate_mechanism(dpa.GaussianDpEvent, **RISK, discrete="no"), "discrete", "'no'"),
    (lambda: de.AdditiveNoiseDpEvent("norm", 3), "parameters", "3"),
    (lambda: de.AdditiveNoiseDpEvent("norm", "scale"), "parameters", "'scale'"),
    (lambda: ACCOUNTANT.supports(de.PllrMomentsDpEvent(1, (1, 2, 3, 4))), "x_cumulants", "1"),
    (lambda: de.reverse(3), "pllr", "3"),
    (lambda: de.subsample(3, 0.5), "pllr", "3"),
    (lambda: de.register_mechanism(int), "event_class", "<class 'int'>"),
    (lambda: de.register_mechanism(de.ProfileDpEvent)(3), "function", "3"),
    (lambda: de.for_groups(3, 2), "event", "3"),
    (lambda: de.verify(None), "certificate", "None"),
    (lambda: de.verify({}), "certificate", "{}"),
    (lambda: de.Certificate.from_json(3), "text", "3"),
])
def test_wrong_types_get_a_sentence(call, name, found):
    with pytest.raises(ValueError, match=rf"^`{name}` must be [^`]*.*\. Found {found}\.$"):
        call()


@pytest.mark.parametrize("call", [
    lambda **budget: de.calibrate_noise(sampling_probability=0.01, steps=10, **budget),
    lambda **budget: de.max_steps(sampling_probability=0.01, noise_multiplier=1.0, **budget),
    lambda **budget: de.calibrate_mechanism(dpa.GaussianDpEvent, bracket=(0.1, 10.0), **budget),
])
def test_an_unknown_keyword_is_named_with_those_that_exist(call):
    with pytest.raises(TypeError, match=r"`target_eps` must be .*target_epsilon, target_delta"):
        call(target_eps=1.0, target_delta=1e-5)


@pytest.mark.parametrize(("name", "library"), [("opacus", "opacus"), ("jax_privacy", "jax_privacy"), ("beam", "apache_beam")])
def test_an_adapter_without_its_library_names_the_extra(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"dp_edgeworth.{name}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {library}: pip install 'dp-edgeworth\[{name}\]'"):
        importlib.import_module(f"dp_edgeworth.{name}")
