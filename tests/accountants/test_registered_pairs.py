"""Registered mechanisms whose two directions are unrelated pairs of atoms, at targets where one of them has nothing left."""

import math

import attr
import dp_accounting as dpa
import pytest

import dp_edgeworth


@attr.s(frozen=True, auto_attribs=True)
class LeakingDpEvent(dpa.DpEvent):
    """"add" loses everything with probability `mass`; "remove" is randomised response with epsilon log 3."""

    mass: float


@dp_edgeworth.register_mechanism(LeakingDpEvent)
def _leaking(event: LeakingDpEvent, neighboring_relation: object) -> dp_edgeworth.Directions:
    return dp_edgeworth.Directions(dp_edgeworth.Atoms((0.25, 0.75), (0.75, 0.25)), dp_edgeworth.Atoms(
        (0.25, 0.75 - event.mass, event.mass, 0.0), (0.75 - event.mass, 0.25, 0.0, event.mass)))


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_delta_that_is_the_infinite_mass_of_one_direction(count: int) -> None:
    """log(delta - infinite mass) is -inf there, which was rounded to an integer: OverflowError."""
    delta = -math.expm1(count * math.log1p(-0.1))
    interval = dp_edgeworth.EdgeworthIntervalAccountant().compose(LeakingDpEvent(0.1), count).get_epsilon_interval(delta)
    # Randomised response alone: delta(eps) = sum (q - e^eps p)_+ over the binomial law of its answers.
    powers = [(math.comb(count, k), 0.75**k * 0.25**(count - k), 0.25**k * 0.75**(count - k)) for k in range(count + 1)]
    t = math.exp(interval.lower * (1.0 - 1e-9))
    assert 0.0 < interval.lower <= interval.upper
    assert math.fsum(ways * max(q - t * p, 0.0) for ways, q, p in powers) >= delta
