"""Statements, explanations and curves of an accountant keep its relation and its settings; every format of a statement."""

import datetime
import hashlib
import html.parser
import json
import math

import dp_accounting as dpa
import numpy as np
import pytest

import dp_edgeworth
from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant
from dp_edgeworth.analysis.subject import event_or_accountant

AR, RO, RS = dpa.NeighboringRelation
EVENT = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(1.0)), 200)
# Of one Gaussian of noise 1 at delta 1e-5: arXiv:1805.06530 Theorem 8, root in 40 digits; a replaced record moves it by 2.
GAUSSIAN = {AR: 4.377178095681225, RO: 9.9972561464343}


@pytest.mark.parametrize("relation", [AR, RO])
def test_statement_of_an_accountant_is_for_its_relation(relation):
    accountant = EdgeworthIntervalAccountant(relation).compose(dpa.GaussianDpEvent(1.0))
    for statement in (accountant.statement(target_delta=1e-5), dp_edgeworth.epsilon_statement(accountant, 1e-5)):
        assert statement.neighboring_relation == relation.name and relation.name in str(statement)
        assert statement.interval.lower <= GAUSSIAN[relation] <= statement.epsilon <= GAUSSIAN[relation] + 1e-6
    assert accountant.explain(target_delta=1e-5).epsilon == accountant.get_epsilon(1e-5)
    assert accountant.explain(target_delta=1e-5).neighboring_relation is relation


def test_delta_and_curves_of_an_accountant():
    accountant = EdgeworthIntervalAccountant(RO).compose(EVENT)
    assert accountant.statement(target_epsilon=1.0).delta == accountant.get_delta(1.0)
    assert dp_edgeworth.delta_statement(accountant, 1.0).neighboring_relation == "REPLACE_ONE"
    curves = accountant.curves(points=11)
    assert curves.delta.upper[3] == accountant.get_delta(curves.epsilon)[3]
    assert curves.advantage > dp_edgeworth.curves(EVENT, points=11).advantage  # of one record added or removed


def test_settings_of_an_accountant_are_kept():
    wide = EdgeworthIntervalAccountant(bound="adaptive", order=2).compose(EVENT)
    statement = wide.statement(target_delta=1e-3)
    assert statement.epsilon == wide.get_epsilon(1e-3) > EdgeworthIntervalAccountant().compose(EVENT).get_epsilon(1e-3)
    assert dict(statement.provenance.settings)["bound"] == "adaptive"
    with pytest.raises(ValueError, match=r"'spectral'\. Found 'adaptive'"):
        wide.explain(target_delta=1e-3)


def test_another_relation_than_the_accountants_is_refused():
    accountant = EdgeworthIntervalAccountant(RO).compose(EVENT)
    for ask in (lambda: dp_edgeworth.epsilon_statement(accountant, 1e-5, AR),
                lambda: dp_edgeworth.explain(accountant, target_delta=1e-5, neighboring_relation=AR),
                lambda: dp_edgeworth.curves(accountant, AR)):
        with pytest.raises(ValueError, match=r"must be the accountant's, REPLACE_ONE\. Found ADD_OR_REMOVE_ONE"):
            ask()


def test_accountants_of_dp_accounting_are_certified_anew():
    event = dpa.GaussianDpEvent(2.0)
    other = dpa.rdp.RdpAccountant(neighboring_relation=RS).compose(event)
    statement = dp_edgeworth.epsilon_statement(other, 1e-5)
    assert statement.neighboring_relation == "REPLACE_SPECIAL" and statement.certified
    assert statement.epsilon == EdgeworthIntervalAccountant(RS).compose(event).get_epsilon(1e-5) < other.get_epsilon(1e-5)


def test_exactly_one_target():
    accountant = EdgeworthIntervalAccountant().compose(EVENT)
    for targets in ({}, {"target_delta": 1e-5, "target_epsilon": 1.0}):
        with pytest.raises(ValueError, match="Exactly one of `target_delta` and `target_epsilon`"):
            accountant.statement(**targets)


def test_provenance_names_tool_version_day_and_event():
    accountant = EdgeworthIntervalAccountant().compose(EVENT)
    provenance = accountant.statement(target_delta=1e-5).provenance
    assert (provenance.tool, provenance.version) == ("dp_edgeworth", dp_edgeworth.__version__)
    assert abs((datetime.date.fromisoformat(provenance.date) - datetime.date.today()).days) <= 1
    assert provenance.event_sha256 == hashlib.sha256(dp_edgeworth.to_json(EVENT).encode()).hexdigest()
    assert provenance.event_sha256 == dp_edgeworth.event_hash(accountant.ledger) == dp_edgeworth.event_hash(EVENT)
    assert provenance.event_sha256 != dp_edgeworth.event_hash(dpa.SelfComposedDpEvent(EVENT.event, 201))
    assert provenance.event_sha256 in str(accountant.statement(target_delta=1e-5))


def test_json_of_a_statement():
    data = json.loads(EdgeworthIntervalAccountant().compose(dpa.NonPrivateDpEvent()).statement(target_delta=1e-5).to_json())
    assert data["epsilon"] == "inf" and data["provenance"]["tool"] == "dp_edgeworth"


HOSTILE = r"a_b|<script>$x^2$</script>\*#%&{}~"


def test_formats_escape_what_an_event_says():
    class Hostile(dpa.DpEvent):
        pass

    Hostile.__name__ = HOSTILE + "DpEvent"
    from dp_edgeworth.losses.mechanisms import registry
    registry._pair.register(Hostile)(lambda event, relation: dp_edgeworth.GaussianShift(1.0))
    statement = EdgeworthIntervalAccountant().compose(Hostile()).statement(target_delta=1e-5)
    assert statement.provenance.event_sha256 == "" and "no hash" in str(statement)
    assert "<script>" not in statement._repr_html_() and "<script>" not in statement.to_markdown()
    row = next(line for line in statement.to_markdown().splitlines() if line.startswith("| accounted"))
    assert row.replace(r"\|", "").count("|") == 3
    latex = statement.to_latex()
    assert r"a\_b$|$$<$script$>$\$x\textasciicircum{}2\$" in latex and latex.count(r"\item") == 9


class _Balance(html.parser.HTMLParser):
    """Counts open tags."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "rect", "line", "polygon", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "line", "polygon", "polyline"):
            assert self.open.pop() == tag


def test_html_of_statements_sweeps_curves_and_accountants_is_balanced():
    accountant = EdgeworthIntervalAccountant(RO).compose(EVENT)
    sweep = dp_edgeworth.sweep(sampling_probability=[0.01, 0.02], noise_multiplier=[0.8, 1.0], steps=100, target_delta=1e-5)
    nothing = EdgeworthIntervalAccountant()
    for shown in (accountant, accountant.statement(target_delta=1e-5), sweep, accountant.curves(points=5), nothing,
                  nothing.curves(points=3)):
        parser = _Balance()
        parser.feed(shown._repr_html_())
        assert not parser.open
    assert "REPLACE_ONE" in accountant._repr_html_()


def test_printed_points_of_a_curve_are_proved():
    curves = EdgeworthIntervalAccountant().compose(EVENT).curves(points=31)
    rows = [line.split() for line in str(curves).splitlines()[1:12]]
    accountant = EdgeworthIntervalAccountant().compose(EVENT)
    for epsilon, delta, alpha, beta in ([float(cell) for cell in row] for row in rows):
        assert accountant.get_delta_interval(epsilon).lower <= delta
        assert accountant.get_tradeoff(alpha).upper >= beta


def test_repr_says_what_was_composed():
    text = repr(EdgeworthIntervalAccountant(RO, tolerance=1e-4).compose(EVENT).compose(dpa.LaplaceDpEvent(3.0)))
    assert text == ("<EdgeworthIntervalAccountant REPLACE_ONE, bound='spectral', order=1, tolerance=0.0001: "
                    "200 x PoissonSampled(0.02, Gaussian(1)); Laplace(3)>")
    assert "order=1, tilted=False: NoOp>" in repr(ApproximateEdgeworthAccountant(order=1))


def test_documents_of_events_and_of_accountants():
    accountant = EdgeworthIntervalAccountant(RO, tolerance=1e-4).compose(EVENT)
    read = event_or_accountant(accountant.to_json())
    assert read.neighboring_relation is RO and read.ledger == EVENT and read._settings == accountant._settings
    estimate = event_or_accountant(ApproximateEdgeworthAccountant(RS).compose(EVENT).to_json().encode())
    assert isinstance(estimate, EdgeworthIntervalAccountant) and estimate.neighboring_relation is RS
    assert event_or_accountant(dp_edgeworth.to_json(EVENT)) == EVENT
    with pytest.raises(dp_edgeworth.EventFormatError):
        event_or_accountant('{"format": "dp-edgeworth-accountant"}')


def test_answers_are_floats_for_floats_and_arrays_for_arrays():
    accountant = EdgeworthIntervalAccountant().compose(EVENT)
    assert type(accountant.get_epsilon(1e-5)) is float and type(accountant.get_delta(1.0)) is float
    assert accountant.get_epsilon([1e-5, 1e-6]).shape == (2,) and accountant.get_delta(np.ones((2, 1))).shape == (2, 1)
    assert math.isfinite(accountant.get_epsilon(np.float64(1e-5)))
