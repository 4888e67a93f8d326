"""A mechanism of one's own (a coin that lies with a probability), composed with others, explained, and calibrated.

    python docs/examples/own_mechanism.py
"""

import attr
import dp_accounting as dpa

import dp_edgeworth


@attr.s(frozen=True, auto_attribs=True)
class LyingCoinDpEvent(dpa.DpEvent):
    """One bit, reported wrongly with probability `lie`."""

    lie: float


@dp_edgeworth.register_mechanism(LyingCoinDpEvent)
def lying_coin(event: LyingCoinDpEvent, neighboring_relation: dpa.NeighboringRelation) -> dp_edgeworth.Atoms:
    """The law of the report without the record's bit, and with it."""
    return dp_edgeworth.Atoms((event.lie, 1 - event.lie), (1 - event.lie, event.lie))


def survey(lie: float) -> dpa.DpEvent:
    return dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(LyingCoinDpEvent(lie), 20), dpa.GaussianDpEvent(4.0)])


def main() -> None:
    print(dp_edgeworth.explain(survey(0.4), target_delta=1e-6))
    lie = dp_edgeworth.calibrate_mechanism(survey, bracket=(0.1, 0.499), target_epsilon=3.0, target_delta=1e-6)
    print(f"a lie of {lie:.6f} stays within epsilon 3")
    print(dp_edgeworth.epsilon_statement(survey(lie), 1e-6).claim)


if __name__ == "__main__":
    main()
