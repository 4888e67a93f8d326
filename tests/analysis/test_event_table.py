"""The table of docs/events.md is what the registry says, and `supports` says the same."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from event_samples import PAGE, SAMPLES, page_with_table
from event_table import RELATIONS, known_by

from dp_edgeworth import EdgeworthIntervalAccountant

NOT_HERE = {"RandomAllocationDpEvent", "SampledWithReplacementDpEvent"}


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page_with_table(PAGE.read_text())


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_supports_agrees(sample, relation):
    answer = known_by(sample, relation)
    bound = "uniform" if answer == "moments" else "spectral"
    accountant = EdgeworthIntervalAccountant(relation, bound=bound)
    assert accountant.supports(sample) == (not answer.startswith("refused"))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_nothing_that_dp_accounting_takes_is_refused(sample, relation):
    for peer in (PLDAccountant, RdpAccountant):
        if type(sample).__name__ not in NOT_HERE and peer(neighboring_relation=relation).supports(sample):
            assert EdgeworthIntervalAccountant(relation).supports(sample)


def test_every_class_of_dp_accounting_is_in_the_table():
    shown = {type(sample).__name__ for sample in SAMPLES}
    abstract = {"DpEvent", "UnsupportedDpEvent", "ComposedDpEvent", "SelfComposedDpEvent"}
    listed = {name for name in dir(dp_event) if name.endswith("DpEvent")}
    assert listed - abstract - shown - NOT_HERE == set()
