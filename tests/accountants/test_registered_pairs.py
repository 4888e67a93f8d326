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
    # Sums over the binomial law of the answers: randomised response, and what "add" has beside the mass that is infinite, delta itself.
    t = math.exp(interval.lower * (1.0 - 1e-9))

    def finite_part(likely: float, unlikely: float) -> float:
        return math.fsum(math.comb(count, k) * max(likely**k * unlikely**(count - k) - t * unlikely**k * likely**(count - k), 0.0)
                         for k in range(count + 1))

    assert 0.0 < interval.lower <= interval.upper
    assert finite_part(0.75, 0.25) >= delta or finite_part(0.65, 0.25) > 1e-12
