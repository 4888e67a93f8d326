"""The privacy accountants: state, and no formula.

    EdgeworthIntervalAccountant      certified: `get_epsilon` is a proved upper bound and comes with a lower one
    ApproximateEdgeworthAccountant   an estimate, the paper's AEA ([EA] Definitions 4.1, 4.6) or its tilted form
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from dp_accounting import dp_event, privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants import description
from dp_edgeworth.accountants.advice import advice
from dp_edgeworth.accountants.analysis_methods import AnalysisMethods
from dp_edgeworth.events import serialization
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.intervals import Bounds, Diagnosis, Interval
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.paper import estimate, finite_sample
from dp_edgeworth.paper.known_moments import PllrMoments
from dp_edgeworth.profiles import whole
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.tradeoff import Polygons
from dp_edgeworth.search.answers import Memory
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_COMPOSITIONS = 10**100


class NotAGuaranteeWarning(UserWarning):
    """The number that this accountant returns is an estimate, not a bound."""


class _EventAccountant(privacy_accountant.PrivacyAccountant):
    """Turns events into counts of PLLRs, one table per direction; answers are left to subclasses.

    `_beyond_moments` names what the accountant does if that needs more than four cumulants of a loss, else it is "".
    `_answers` is the side of the bounds that is answered with.
    """

    _beyond_moments = ""
    _answers = "upper"

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE):
        super().__init__(validation.relation(neighboring_relation))
        self._pairs = PairSums()

    if TYPE_CHECKING:  # inherited from dp-accounting, which has no types
        def compose(self, event: dp_event.DpEvent, count: int = 1) -> Self: ...
        def supports(self, event: dp_event.DpEvent) -> bool: ...

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        times = validation.integer("count", count, 0)
        steps = []
        for leaf, repeats in leaves(event):
            try:
                pairs = mechanisms.directions(leaf, self.neighboring_relation)
            except mechanisms.UnsupportedLeafError as error:
                return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.message)
            if isinstance(pairs.remove, PllrMoments) and self._beyond_moments:
                return self.CompositionErrorDetails(invalid_event=leaf, error_message=(
                    f"{self._beyond_moments} needs more than the four cumulants of a `PllrMomentsDpEvent`; "
                    "`EdgeworthIntervalAccountant(bound='uniform')` and, up to order 2, "
                    "`ApproximateEdgeworthAccountant` do not."))
            if repeats * max(times, 1) > _MOST_COMPOSITIONS:
                raise ValueError(f"`count` must be at most 1e100 in all. Found about 1e{len(str(repeats * max(times, 1))) - 1}.")
            steps.append((pairs, repeats))
        if do_compose:
            for pairs, repeats in steps:
                self._add(pairs, repeats * times)
        return None

    def _add(self, pairs: mechanisms.Directions, count: int) -> None:
        """The one place where a count is applied."""
        if pairs is not mechanisms.NO_LOSS:
            self._pairs.add(*pairs, count)

    @property
    def _non_private(self) -> bool:
        """Whether everything may be lost: of the rest nothing need be known."""
        return mechanisms.NON_PRIVATE in self._pairs.counts

    @property
    def _settings(self) -> dict[str, Any]:
        """The keyword arguments that make an accountant like this one."""
        return {}

    def __repr__(self) -> str:
        return description.described(type(self).__name__, self.neighboring_relation, self._settings, self.ledger)

    def _repr_html_(self) -> str:
        return description.as_html(type(self).__name__, self.neighboring_relation, self._settings, self.ledger)

    def merge(self, other: Self) -> Self:
        """Composes everything that `other` has composed, and returns this accountant; `other` is left as it is.

        The same as having composed both ledgers here, in any order and grouping.

        Raises:
          ValueError: `other` is of another class, or has another neighboring relation or other settings.
        """
        if type(other) is not type(self):
            raise ValueError(f"`other` must be of class {type(self).__name__}. Found {type(other).__name__}.")
        ours = {"neighboring_relation": self.neighboring_relation, **self._settings}
        theirs = {"neighboring_relation": other.neighboring_relation, **other._settings}
        for name, value in ours.items():
            if theirs[name] != value:
                raise ValueError(f"`other` must have {name} {value!r}. Found {theirs[name]!r}.")
        ledger = other.ledger
        return self if isinstance(ledger, dp_event.NoOpDpEvent) else self.compose(ledger)

    def to_json(self) -> str:
        """Class, neighboring relation, settings and ledger as JSON; `from_json` gives an equal accountant back."""
        return serialization.accountant_to_json(type(self).__name__, self.neighboring_relation, self._settings, self.ledger)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The accountant that `to_json` of the same class wrote.

        Raises:
          EventFormatError: `text` is not such a document; the sentence starts with the path of the offending value.
        """
        relation, settings, ledger = serialization.accountant_from_json(text, cls.__name__)
        try:
            accountant = cls(relation, **settings)
        except (TypeError, ValueError) as error:
            raise serialization.EventFormatError(f"$.settings: must be what `{cls.__name__}` takes. Found: {error}") from error
        return accountant.compose(ledger)

    def _compositions(self) -> list[Composition]:
        """One composition per direction; a single one where both are the same."""
        return whole.compositions(self._pairs, exact=False)

    def __copy__(self) -> Self:
        """An accountant of its own: what is composed on one of them is not composed on the other."""
        return copy.deepcopy(self)

    def _answer(self, name: str, value: Any, high: float, constants: tuple[float, float], bounds: Any) -> Bounds:
        """Checks the argument, answers the two trivial cases, and otherwise asks `bounds`."""
        values = validation.array_in(name, value, 0.0, high)
        if self._non_private or not self._pairs.counts:
            constant = np.full(values.shape, constants[0 if self._non_private else 1])
            return Bounds(constant, constant, constant)
        flat: Bounds = bounds(values.ravel())
        return Bounds(*(part.reshape(values.shape) + 0.0 for part in flat))  # no -0.0

    def _epsilons(self, target_delta: Any) -> Bounds:
        return self._answer("target_delta", target_delta, 1.0, (math.inf, 0.0), self._epsilon_bounds)

    def _deltas(self, target_epsilon: Any, memory: Memory | None = None) -> Bounds:
        """At epsilons of either sign: both directions together are a mirror image, delta(eps) = 1 - e^eps + e^eps delta(-eps)."""
        epsilons = validation.array_in("target_epsilon", target_epsilon, -math.inf, math.inf)
        found = self._answer("target_epsilon", np.abs(epsilons), math.inf, (1.0, 0.0), lambda sizes: self._delta_bounds(sizes, memory))
        low, outwards = np.minimum(epsilons, 0.0), (1.0 - 2e-15, 1.0, 1.0 + 2e-15)
        with np.errstate(under="ignore"):
            mirrored = [(np.exp(low) * part - np.expm1(low)) * factor for part, factor in zip(found, outwards, strict=True)]
        return Bounds(*(np.where(epsilons < 0.0, np.clip(one, part, 1.0), part) for part, one in zip(found, mirrored, strict=True)))

    @overload
    def get_epsilon(self, target_delta: float) -> float: ...

    @overload
    def get_epsilon(self, target_delta: np.ndarray | Sequence[float]) -> np.ndarray: ...

    def get_epsilon(self, target_delta: float | np.ndarray | Sequence[float]) -> float | np.ndarray:
        """epsilon at `target_delta`: a proved upper bound, of an approximate accountant an estimate; an array for an array."""
        return _plain(getattr(self._epsilons(target_delta), self._answers))

    @overload
    def get_delta(self, target_epsilon: float) -> float: ...

    @overload
    def get_delta(self, target_epsilon: np.ndarray | Sequence[float]) -> np.ndarray: ...

    def get_delta(self, target_epsilon: float | np.ndarray | Sequence[float]) -> float | np.ndarray:
        """delta at `target_epsilon`: a proved upper bound, of an approximate accountant an estimate; an array for an array."""
        return _plain(getattr(self._deltas(target_epsilon), self._answers))

    def _epsilon_bounds(self, deltas: np.ndarray) -> Bounds:
        raise NotImplementedError

    def _delta_bounds(self, epsilons: np.ndarray, memory: Memory | None = None) -> Bounds:
        raise NotImplementedError


def _plain(values: np.ndarray) -> Any:
    """A float for a scalar, the array otherwise."""
    return float(values) if values.ndim == 0 else values


class EdgeworthIntervalAccountant(_EventAccountant, AnalysisMethods):
    """A certified accountant: what it returns is a proved bound, and it says how tight that is.

    Args:
      neighboring_relation: how neighbouring data sets differ.
      bound: "spectral", the certified inversion of the characteristic function; or one of the paper's finite-sample
        bounds ([EA] Definitions 4.2, 4.7; wider, see `finite_sample`): "uniform", Lemma 4.3 from four moments of every
        loss, or "adaptive", at every epsilon the best of the expansions up to `order` and of exponential tails.
      order: 1, 2 or 3, for "adaptive" only; 2 and 3 are proved here and not in the paper (`paper.prawitz_bounds`).
      tolerance: the width of the epsilon interval aimed at, absolute below epsilon 1 and relative above. Where it cannot be
        met within bounded work the wider interval is returned, which is as valid.

    >>> import dp_accounting as dpa
    >>> import dp_edgeworth
    >>> event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
    >>> accountant = dp_edgeworth.EdgeworthIntervalAccountant().compose(event)
    >>> round(accountant.get_epsilon(1e-5), 6)
    10.053635
    >>> interval = accountant.get_epsilon_interval(1e-5)
    >>> interval.lower <= interval.estimate <= interval.upper < interval.lower + 1e-6
    True
    """

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *,
                 bound: str = "spectral", order: int = 1, tolerance: float = 1e-6):
        super().__init__(neighboring_relation)
        if not isinstance(bound, str) or bound not in ("spectral", "uniform", "adaptive"):
            raise ValueError(f"`bound` must be 'spectral', 'uniform' or 'adaptive'. Found {validation.shown(bound)}.")
        if validation.integer("order", order, 1) > (3 if bound == "adaptive" else 1):
            raise ValueError("`order` must be 1, or up to 3 where `bound` is 'adaptive'. "
                             f"Found {validation.shown(order)} with {bound!r}.")
        self._bound = bound
        self._method = finite_sample.Method(bound, order)
        self._beyond_moments = "" if bound == "uniform" else f"`bound={bound!r}`"
        self._tolerance = validation.positive("tolerance", tolerance)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"bound": self._bound, "order": self._method.order, "tolerance": self._tolerance}

    def get_epsilon_interval(self, target_delta: Any) -> Interval:
        """Certified lower and upper bounds of epsilon at `target_delta`, and the best estimate."""
        return Interval(*map(_plain, self._epsilons(target_delta)))

    def get_delta_interval(self, target_epsilon: Any) -> Interval:
        """Certified lower and upper bounds of delta at `target_epsilon`, and the best estimate."""
        return Interval(*map(_plain, self._deltas(target_epsilon)))

    def diagnose(self, target_delta: float) -> Diagnosis:
        """How epsilon at `target_delta` was proved and, where its interval is wider than asked, why.

        >>> import dp_accounting as dpa
        >>> import dp_edgeworth
        >>> accountant = dp_edgeworth.EdgeworthIntervalAccountant().compose(dpa.LaplaceDpEvent(1.0), 100)
        >>> accountant.diagnose(1e-5).upper_by
        'contour'
        """
        delta = validation.probability("target_delta", target_delta)
        if self._non_private or not self._pairs.counts or self._bound != "spectral":
            return Diagnosis(self.get_epsilon_interval(delta), "definition", "definition", True, "")
        found = whole.epsilon_bounds(self._pairs, np.array([delta]), self._tolerance)
        interval = Interval(*(float(part[0]) for part in (found.lower, found.estimate, found.upper)))
        lower_by, upper_by = str(found.lower_by[0]), str(found.upper_by[0])
        narrow = interval.upper - interval.lower <= self._tolerance * max(1.0, interval.lower) or interval.lower == math.inf
        return Diagnosis(interval, lower_by, upper_by, narrow, "" if narrow else advice(upper_by, self._compositions()))

    def delta_floor(self) -> float:
        """The smallest delta that this bound certifies at any epsilon: below it `get_epsilon` is inf."""
        if self._non_private or not self._pairs.counts:
            return float(self._non_private)
        return finite_sample.delta_floor(self._compositions(), self._method)

    def _epsilon_bounds(self, deltas: np.ndarray) -> Bounds:
        if self._bound != "spectral":
            return finite_sample.epsilon_bounds(self._compositions(), deltas, self._method)
        return _bounds(whole.epsilon_bounds(self._pairs, deltas, self._tolerance))

    def _delta_bounds(self, epsilons: np.ndarray, memory: Memory | None = None) -> Bounds:
        if self._bound != "spectral":
            return finite_sample.delta_bounds(self._compositions(), epsilons, self._method)
        return _bounds(whole.delta_bounds(self._pairs, epsilons, self._tolerance, memory))

    def _reach(self, delta: float) -> float:
        if self._non_private or not self._pairs.counts:
            return float(np.inf if self._non_private else 0.0)
        return whole.reach(self._pairs, delta) if self._bound == "spectral" else float(self._epsilons(delta).upper)

    def _tables(self, high: float, memory: Memory) -> Iterable[Polygons]:
        return whole.tables(self._pairs, high, memory) if self._bound == "spectral" and self._pairs.counts else []

    def _most(self, epsilons: np.ndarray, memory: Memory) -> np.ndarray:
        return whole.most(self._pairs, epsilons, memory)


def _bounds(found: Proved) -> Bounds:
    return Bounds(found.lower, found.estimate, found.upper)


class ApproximateEdgeworthAccountant(_EventAccountant):
    """The Approximate Edgeworth Accountant: an estimate of any order, not a bound.

    Use `EdgeworthIntervalAccountant` for a number to publish.

    Args:
      neighboring_relation: how neighbouring data sets differ.
      order: order k of the expansion; 0 is the central limit theorem.
      tilted: expand at the saddle point instead of at the means. Same cost, far smaller error.

    epsilon is the largest root of the estimated delta, so that a curve that is not monotone errs to the safe side.
    """

    _answers = "estimate"

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *,
                 order: int = 2, tilted: bool = False):
        super().__init__(neighboring_relation)
        self._order = validation.integer("order", order, 0)
        self._tilted = validation.flag("tilted", tilted)
        if self._tilted or self._order > 2:
            self._beyond_moments = f"`order={self._order}, tilted={self._tilted}`"
        warnings.warn("ApproximateEdgeworthAccountant returns an estimate, not a privacy guarantee. "
                      "Use EdgeworthIntervalAccountant for a certified bound.", NotAGuaranteeWarning, stacklevel=2)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"order": self._order, "tilted": self._tilted}

    def _epsilon_bounds(self, deltas: np.ndarray) -> Bounds:
        values = estimate.epsilons(self._compositions(), deltas, self._order, self._tilted)
        return Bounds(values, values, values)

    def _delta_bounds(self, epsilons: np.ndarray, memory: Memory | None = None) -> Bounds:
        values = estimate.deltas(self._compositions(), epsilons, self._order, self._tilted)
        return Bounds(values, values, values)
