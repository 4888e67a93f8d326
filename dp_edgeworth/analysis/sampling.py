"""One recipe, all ways to draw its batches, side by side.

>>> table = compare_sampling(batch_size=256, dataset_size=60_000, epochs=15, noise_multiplier=1.1, target_delta=1e-5)
>>> [(row.scheme, round(row.interval.upper, 2)) for row in table.rows if row.neighboring_relation == "REPLACE_ONE"]
[('Poisson, record replaced', 1.93), ('fixed size', 8.92)]

Rows of different neighboring relations answer different questions and must not be compared: a record that is added or removed moves a
sum by the clipping norm, one that is replaced by another moves it by twice that.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis.budgets import BudgetError, budget_of
from dp_edgeworth.analysis.calibration import Point, bracket_from, end_of_budget
from dp_edgeworth.analysis.rendering import COLOURS, Answer, as_csv, cell, folded, html_table, new_axes
from dp_edgeworth.analysis.sampling_schemes import SCHEMES, Recipe, Scheme
from dp_edgeworth.events.description import relation_in_words, rounded_down, rounded_up
from dp_edgeworth.intervals import Interval

_LEAST_NOISE, _MOST_NOISE, _NOISE_ACCURACY = 2.0**-20, 1e9, 1e-4
_NEXT, _FURTHEST = 0.02, 3.0  # log of the ratio of the first two noise multipliers that are tried
_COLUMNS = ("scheme", "neighboring_relation", "noise_multiplier", "epsilon_lower", "epsilon_upper", "guarantee", "requirement")
_TIGHT = "proved interval of the scheme itself"
_BETWEEN = "proved bounds, nothing sharper is known: above, no amplification; below, the loss for one choice of data"
_NOT_COMPARABLE = "Rows of different neighboring relations are not comparable."


@dataclasses.dataclass(frozen=True)
class SamplingRow:
    """One scheme.

    Attributes:
      interval: of epsilon. guarantee: what kind of interval it is. requirement: what a program must do to claim it.
      noise_multiplier: the given one, or the smallest one, to 1e-4 of itself, whose upper end is within the target epsilon.
    """

    scheme: str
    neighboring_relation: str
    noise_multiplier: float
    interval: Interval
    guarantee: str
    requirement: str

    @property
    def values(self) -> tuple[Any, ...]:
        """In the order of the columns."""
        return (self.scheme, self.neighboring_relation, self.noise_multiplier, self.interval.lower, self.interval.upper, self.guarantee,
                self.requirement)

    @property
    def numbers(self) -> tuple[str, str, str]:
        """Noise multiplier, lower and upper end of epsilon as they are printed."""
        return rounded_up(self.noise_multiplier), rounded_down(self.interval.lower), rounded_up(self.interval.upper)


@dataclasses.dataclass(frozen=True, repr=False)
class SamplingComparison(Answer):
    """The table: rows of one neighboring relation are next to each other."""

    recipe: Recipe
    target_delta: float
    target_epsilon: float | None
    rows: tuple[SamplingRow, ...]

    @property
    def title(self) -> str:
        recipe = self.recipe
        solved = "" if self.target_epsilon is None else f", noise for epsilon {self.target_epsilon:g}"
        return (f"batches of {recipe.batch_size:,} of {recipe.dataset_size:,} records, {recipe.epochs:g} epochs, "
                f"delta {self.target_delta:g}{solved}")

    @property
    def _by_relation(self) -> dict[str, list[SamplingRow]]:
        """The rows of every relation, by its name and what it means."""
        groups: dict[str, list[SamplingRow]] = {}
        for row in self.rows:
            words = relation_in_words(NeighboringRelation[row.neighboring_relation])
            groups.setdefault(f"{row.neighboring_relation}: {words}", []).append(row)
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**dataclasses.asdict(self.recipe), "target_delta": self.target_delta, "target_epsilon": self.target_epsilon,
                "rows": [dict(zip(_COLUMNS, row.values, strict=True)) for row in self.rows], "note": _NOT_COMPARABLE}

    def to_csv(self, path: Any = None) -> str:
        """One line per scheme; also written to `path` if given."""
        return as_csv([_COLUMNS, *(row.values for row in self.rows)], path)

    def plot(self, axes: Any = None) -> Any:
        """The intervals as bars, or the noise multipliers where these were solved for: one colour per neighboring relation, as bars
        of different colours are not comparable. Needs matplotlib; returns its axes.
        """
        axes, solved, place = new_axes(axes, 8.0, 1.5 + 0.45 * len(self.rows)), self.target_epsilon is not None, 0
        for colour, rows in zip(COLOURS, self._by_relation.values(), strict=False):
            for i, row in enumerate(rows):
                low, high = (row.noise_multiplier,) * 2 if solved else (row.interval.lower, row.interval.upper)
                if math.isfinite(high):
                    axes.barh(place, high, color=colour, alpha=0.35, label=None if i else row.neighboring_relation)
                    axes.barh(place, low, color=colour)
                    axes.text(high, place, f" {rounded_up(high, 4)}", va="center", fontsize=9)
                place += 1
        axes.set(yticks=range(len(self.rows)), yticklabels=[row.scheme for row in self.rows],
                 xlabel="noise multiplier" if solved else "epsilon (light: between the lower and the upper end)")
        axes.set_xscale("log")  # without any sampling epsilon is a thousand times larger
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_title(self.title, fontsize=10)
        axes.legend(title="not comparable across", fontsize=8, title_fontsize=8, ncols=3,
                    loc="upper center", bbox_to_anchor=(0.4, -0.15))
        axes.figure.tight_layout()
        return axes

    def __str__(self) -> str:
        lines = [self.title]
        for heading, rows in self._by_relation.items():
            lines += ["", heading, f"  {'scheme':<26} {'noise':>9} {'epsilon, lower':>15} {'upper':>11}"]
            for row in rows:
                noise, lower, upper = row.numbers
                words = [f"to claim it: {row.requirement}", *([] if row.guarantee == _TIGHT else [row.guarantee])]
                lines += [f"  {row.scheme:<26} {noise:>9} {lower:>15} {upper:>11}", *(folded(text, " " * 6) for text in words)]
        return "\n".join([*lines, "", _NOT_COMPARABLE])

    def _repr_html_(self) -> str:
        head = ("scheme", "noise", "epsilon, lower", "upper", "guarantee", "to claim it")
        tables = [cell(words, "p", "") + html_table([(row.scheme, *row.numbers, row.guarantee, row.requirement) for row in rows], head)
                  for words, rows in self._by_relation.items()]
        return cell(self.title, "p", "") + "".join(tables) + cell(_NOT_COMPARABLE, "p", "")


def compare_sampling(*, batch_size: int, dataset_size: int, epochs: float, target_delta: float, noise_multiplier: float | None = None,
                     target_epsilon: float | None = None, truncated_batch_size: int | None = None) -> SamplingComparison:
    """Certified epsilon of one recipe under every way to draw its batches, or the noise that each of them needs.

    Args:
      batch_size, dataset_size: records per batch (its expectation where it is random), and in all.
      epochs: passes over the data; schemes that deal out all records run whole ones.
      target_delta: the delta at which epsilon is asked.
      noise_multiplier: standard deviation of the noise over the clipping norm.
      target_epsilon: instead of the noise multiplier, which is then solved for.
      truncated_batch_size: the largest batch that truncated Poisson sampling keeps.

    Raises:
      BudgetError: no noise is enough for `target_epsilon`.
    """
    recipe = Recipe.of(batch_size, dataset_size, epochs, truncated_batch_size)
    delta = validation.probability("target_delta", target_delta)
    if (noise_multiplier is None) == (target_epsilon is None):
        raise ValueError("Exactly one of `noise_multiplier` and `target_epsilon` must be given.")
    if noise_multiplier is not None:
        noise = validation.at_least_zero("noise_multiplier", noise_multiplier)
        return SamplingComparison(recipe, delta, None, tuple(_row(scheme, recipe, noise, delta) for scheme in SCHEMES))
    epsilon = validation.positive("target_epsilon", target_epsilon)
    rows: list[SamplingRow] = []
    for scheme in SCHEMES:
        noise = _least_noise(scheme, recipe, epsilon, delta, rows[0].noise_multiplier if rows else 1.0)
        rows.append(_row(scheme, recipe, noise, delta))
    return SamplingComparison(recipe, delta, epsilon, tuple(rows))


def _interval(scheme: Scheme, recipe: Recipe, noise: float, delta: float) -> Interval:
    accountant = EdgeworthIntervalAccountant(scheme.relation).compose(scheme.event(recipe, noise))
    return accountant.get_epsilon_interval(delta)


def _row(scheme: Scheme, recipe: Recipe, noise: float, delta: float) -> SamplingRow:
    return SamplingRow(scheme.name, scheme.relation.name, noise, _interval(scheme, recipe, noise, delta),
                       _TIGHT if scheme.tight else _BETWEEN, scheme.requirement)


def _least_noise(scheme: Scheme, recipe: Recipe, epsilon: float, delta: float, guess: float) -> float:
    """The end above, within 1e-4 of itself, of where the upper end of epsilon falls to the target.

    Around the guess the logarithm of epsilon falls about as fast as that of the noise grows, or faster.
    """
    budget = budget_of(target_epsilon=epsilon, target_delta=delta)

    def excess(noise: float) -> float:
        return budget.excess(EdgeworthIntervalAccountant(scheme.relation).compose(scheme.event(recipe, noise)))

    start = Point(guess, excess(guess))
    factor = math.exp(min(max(1.2 * abs(start.excess), _NEXT), _FURTHEST))
    ends = bracket_from(excess, start, 1.0 / factor, _LEAST_NOISE) if start.kept else bracket_from(excess, start, factor, _MOST_NOISE)
    if ends is None and not start.kept:
        raise BudgetError(f"No noise multiplier meets `target_epsilon` {epsilon:g} at `target_delta` {delta:g} with {scheme.name}.")
    return float(end_of_budget(excess, *ends, relative=_NOISE_ACCURACY)) if ends is not None else _LEAST_NOISE
