"""What is asked: epsilon of a delta, or delta at an epsilon, for whole arrays of targets.

A question says where to put a curve for one of its targets, reads all targets off a curve, and knows when an answer is good enough.
"""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np

from dp_edgeworth.proofs import largest_loss
from dp_edgeworth.proofs.closed_form import ClosedForm
from dp_edgeworth.proofs.convolution import Convolution
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.ends import log_targets, proved_deltas, proved_epsilons
from dp_edgeworth.proofs.mirror import Mirrored
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.reduction import Reduced
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice
from dp_edgeworth.search.crossing import bisected, near, tabled
from dp_edgeworth.search.ladder import Place, place_at_epsilon, place_of_delta
from dp_edgeworth.sums.composition import Composition

_LARGE_DELTA = 0.4  # from here on 1 - delta is looked at
_CHEAP, _DEAR, _NEGLIGIBLE = 0.05, 0.5e-3, 1e-9  # of the tolerance, of epsilon, of delta may go to leaves that are not composed
_LEAST_LOG = -700.0
_FINE = 2e-4  # relative width that convolutions aim at where epsilon is small
_WIDE, _FINEST = 1e-3, 1e-9  # relative
_NO_FLOAT = 1e-320
_MOST_KNOTS = 100_000  # points of a lattice that are looked at for many targets at once
# Widths that methods which take long are not used for, in those aimed at; of delta 1e-3 of itself at most.
_DELTA_WIDTHS, _MANY_DELTA_WIDTHS, _EPSILON_WIDTHS = 8.0, 1e9, 100.0
_UNKNOWN = 0.1  # relative width of a delta of which nothing is known
_FEW_TARGETS, _LEAST_OF_MANY = 8, 1e-30  # of many targets those of deltas below are not worth what takes long


@dataclasses.dataclass(frozen=True)
class Question(abc.ABC):
    """Targets, and the width of epsilon aimed at: absolute below 1, relative above."""

    targets: np.ndarray
    tolerance: float
    hurried: bool = False  # one of many about the same curve: what takes long is for targets of which nothing is known

    @abc.abstractmethod
    def begin(self, composition: Composition) -> Proved:
        """What the largest loss says."""

    @abc.abstractmethod
    def narrow(self, found: Proved, times: float = 1.0) -> np.ndarray:
        """Which answers are as narrow as asked, or so many times as wide."""

    @abc.abstractmethod
    def worth_waiting(self, found: Proved, floor: np.ndarray) -> bool:
        """Whether methods that take long are worth their time: some target is wider than it may be, one of few more so than of many."""

    @abc.abstractmethod
    def complement(self, composition: Composition, number: int) -> bool:
        """Whether a target is a question about 1 - delta."""

    @abc.abstractmethod
    def place(self, composition: Composition, infinite: Composition, number: int) -> Place | None:
        """Where to put a curve for one target; `infinite` is the composition that knows the infinite losses."""

    @abc.abstractmethod
    def closer(self, place: Place, curve: Curve, found: Proved, number: int) -> Place:
        """The same after a curve was read."""

    @abc.abstractmethod
    def read(self, curve: Curve, composition: Composition, numbers: np.ndarray, start: float, found: Proved, floor: np.ndarray,
             number: int | None = None) -> Proved:
        """What a curve says about some targets; `start` is about the epsilon of target `number`, or of the only one."""

    @abc.abstractmethod
    def again(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved, floor: np.ndarray) -> Proved:
        """What a curve that was made for another question says about some targets."""

    @abc.abstractmethod
    def below(self, curve: Curve, composition: Composition, numbers: np.ndarray, floor: np.ndarray) -> Proved:
        """Whether a curve proves that some targets stay below their floor."""

    @abc.abstractmethod
    def between(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved) -> Proved:
        """What a coarse curve says."""

    @abc.abstractmethod
    def halves(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The targets that closed forms of delta, and of 1 - delta, are to be asked for."""

    @abc.abstractmethod
    def within(self, form: ClosedForm, composition: Composition, numbers: np.ndarray) -> np.ndarray:
        """Those of some targets that lie where a closed form holds."""

    @abc.abstractmethod
    def log_deltas(self, composition: Composition, found: Proved, numbers: np.ndarray) -> np.ndarray:
        """About log G at some targets."""

    def log_delta(self, composition: Composition, found: Proved, number: int) -> float:
        """At one."""
        return float(self.log_deltas(composition, found, np.array([number]))[0])

    @abc.abstractmethod
    def expected(self, composition: Composition, number: int, floor: np.ndarray) -> tuple[float, float]:
        """About log G and epsilon of a target that another direction has answered: its floor."""

    @abc.abstractmethod
    def scale(self, found: Proved, number: int) -> float:
        """About the epsilon of a target."""

    @abc.abstractmethod
    def wanted(self, found: Proved, numbers: np.ndarray) -> np.ndarray:
        """The widths of answers that convolutions and lattices aim at."""

    @abc.abstractmethod
    def budget(self, composition: Composition, found: Proved, numbers: np.ndarray) -> tuple[float, float]:
        """By how much leaves that are left out may shift epsilon, and log of the mass that this may cost."""

    def open(self, found: Proved, floor: np.ndarray, times: float = 1.0) -> np.ndarray:
        """Targets that are neither narrow nor below what another direction has reached."""
        return (~(self.narrow(found, times) | (found.upper <= floor))).nonzero()[0]

    def worthy(self, found: Proved, floor: np.ndarray, times: float = 1.0) -> np.ndarray:
        """Those that are worth more than what others bring with them: of many not those of the tiniest deltas."""
        left = self.open(found, floor, times)
        return left if len(self.targets) <= _FEW_TARGETS else left[self.most_deltas(found)[left] > _LEAST_OF_MANY]

    @abc.abstractmethod
    def most_deltas(self, found: Proved) -> np.ndarray:
        """Upper bounds of delta at all targets."""


class EpsilonOf(Question):
    """The smallest epsilon >= 0 with delta(epsilon) <= delta."""

    def begin(self, composition: Composition) -> Proved:
        return largest_loss.epsilon_bounds(composition, self.targets)

    def worth_waiting(self, found: Proved, floor: np.ndarray) -> bool:
        few = len(self.open(found, floor)) <= _FEW_TARGETS and not self.hurried
        return len(self.worthy(found, floor, 1.0 if few else _EPSILON_WIDTHS)) > 0

    def most_deltas(self, found: Proved) -> np.ndarray:
        return self.targets

    def narrow(self, found: Proved, times: float = 1.0) -> np.ndarray:
        """A lower end of 0 is one only where the upper end is (nearly) 0, too."""
        close = found.upper <= found.lower + times * self.tolerance * np.maximum(1.0, found.lower)
        return np.asarray(close & ((found.lower > 0.0) | (found.upper <= _WIDE * self.tolerance)))

    def complement(self, composition: Composition, number: int) -> bool:
        return bool(self.targets[number] > _LARGE_DELTA)

    def place(self, composition: Composition, infinite: Composition, number: int) -> Place | None:
        # Above the mean loss, where delta may still be large, 1 - delta has no saddle point.
        for complement in (True, False) if self.complement(infinite, number) else (False,):
            log_g = float(log_targets(infinite, self.targets[[number]], complement=complement).logs[0])
            place = place_of_delta(composition, log_g, complement=complement) if math.isfinite(log_g) else None
            if place is not None:
                return place
        return None

    def closer(self, place: Place, curve: Curve, found: Proved, number: int) -> Place:
        epsilon = float(found.estimate[number])
        slope = abs(float(curve.bounds(np.array([epsilon])).slope[0]))
        return place._replace(epsilon=epsilon, slope=slope if 0.0 < slope < math.inf else place.slope)

    def read(self, curve: Curve, composition: Composition, numbers: np.ndarray, start: float, found: Proved, floor: np.ndarray,
             number: int | None = None) -> Proved:
        deltas = self.targets[numbers]
        if floor[numbers].any():  # it is enough that another direction is larger
            enough = self.below(curve, composition, numbers, floor)
            if (enough.upper <= floor[numbers]).all():
                return enough
        inner = curve
        while isinstance(inner, Reduced):
            inner = inner.curve
        if isinstance(inner, ClosedForm):
            mine = near(curve, composition, deltas, self._guesses(composition, found, numbers))
            lost = np.isinf(mine.upper) | ((mine.lower == 0.0) & (mine.estimate > 0.0))
            return mine.met(bisected(curve, composition, deltas[lost], 1e300), lost) if lost.any() else mine
        if isinstance(inner, Convolution):
            finite = found.upper[numbers][np.isfinite(found.upper[numbers])]
            return bisected(curve, composition, deltas, float(finite.max(initial=1e-300)) if len(finite) == len(numbers) else 1e300)
        most = float(found.upper[numbers].max())
        if isinstance(curve, RoundedLattice) and len(numbers) > _FEW_TARGETS and most / curve.below.step < _MOST_KNOTS:
            return tabled(curve, composition, deltas, most)
        if len(deltas) == 1 and number is None:
            return near(curve, composition, deltas, np.array([start]))
        own = deltas if number is None else self.targets[[number]]
        logs, middle = (log_targets(composition, part, complement=curve.complement, whole=curve.whole).logs for part in (deltas, own))
        with np.errstate(invalid="ignore", over="ignore"):
            starts = np.nan_to_num(start + (middle[0] - logs) / curve.tilt, nan=start)
        return near(curve, composition, deltas, np.clip(starts, 0.0, 2.0 * start + 10.0))

    def _guesses(self, composition: Composition, found: Proved, numbers: np.ndarray) -> np.ndarray:
        """As if the sum of losses were normal, where nothing bounds it; otherwise near the top."""
        low, high = found.lower[numbers], found.upper[numbers]
        if composition.gaussian_variance > 0.0:
            mu, logs = math.sqrt(composition.gaussian_variance), np.log(np.clip(self.targets[numbers], 1e-300, 0.5))
            return np.clip(0.5 * mu * mu + mu * np.sqrt(-2.0 * logs), low, high)
        return np.where(np.isfinite(high), low + 0.9 * (high - low), low + 1.0)

    def again(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved, floor: np.ndarray) -> Proved:
        if isinstance(curve, Mirrored):  # good near epsilon 0 only, and long to search
            return found.at(numbers)
        return bisected(curve, composition, self.targets[numbers], 1e300)

    def below(self, curve: Curve, composition: Composition, numbers: np.ndarray, floor: np.ndarray) -> Proved:
        at = floor[numbers]
        return proved_epsilons(curve, composition, self.targets[numbers], np.zeros(len(at)), at, at)

    def between(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved) -> Proved:
        return bisected(curve, composition, self.targets[numbers], 1e300)

    def halves(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        large = self.targets[numbers] > 0.5
        return numbers[~large], numbers[large]

    def within(self, form: ClosedForm, composition: Composition, numbers: np.ndarray) -> np.ndarray:
        if form.start <= 0.0:
            return numbers
        at_start = float(form.bounds(np.array([form.start])).lower[0])
        logs = log_targets(composition, self.targets[numbers], complement=form.complement, whole=True).logs
        return numbers[(logs > at_start) if form.complement else (logs < at_start)]

    def log_deltas(self, composition: Composition, found: Proved, numbers: np.ndarray) -> np.ndarray:
        return log_targets(composition, self.targets[numbers], complement=False).logs

    def expected(self, composition: Composition, number: int, floor: np.ndarray) -> tuple[float, float]:
        return float(log_targets(composition, self.targets[[number]], complement=False).logs[0]), float(floor[number])

    def scale(self, found: Proved, number: int) -> float:
        if found.lower[number] > 0.0:
            return float(found.estimate[number])
        return 0.3 * float(found.upper[number]) if math.isfinite(found.upper[number]) else 1.0

    def wanted(self, found: Proved, numbers: np.ndarray) -> np.ndarray:
        low = found.lower[numbers]
        return np.minimum(self.tolerance * np.maximum(1.0, low), _FINE * np.maximum(low, self.tolerance))

    def budget(self, composition: Composition, found: Proved, numbers: np.ndarray) -> tuple[float, float]:
        least, smallest = float(self.targets[numbers].min()), float(found.upper[numbers].min())
        if not least > 1e-290:  # delta less q must differ from delta
            return 0.0, -math.inf
        dear = _DEAR * smallest if math.isfinite(smallest) else 0.0
        return max(_CHEAP * self.tolerance, dear), math.log(least) + math.log(_NEGLIGIBLE)


@dataclasses.dataclass(frozen=True)
class DeltaAt(Question):
    """delta(epsilon). `slopes` is what curves said of |d log delta / d epsilon|: what a width of epsilon means for delta."""

    slopes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", np.ones(len(self.targets)))

    def begin(self, composition: Composition) -> Proved:
        return largest_loss.delta_bounds(composition, self.targets)

    def worth_waiting(self, found: Proved, floor: np.ndarray) -> bool:
        if self.hurried:
            left = self.worthy(found, floor)
            return bool((found.upper - found.lower > _UNKNOWN * found.upper)[left].any())
        few = len(self.open(found, floor)) <= _FEW_TARGETS
        return len(self.worthy(found, floor, _DELTA_WIDTHS if few else _MANY_DELTA_WIDTHS)) > 0

    def most_deltas(self, found: Proved) -> np.ndarray:
        return found.upper

    def narrow(self, found: Proved, times: float = 1.0) -> np.ndarray:
        """Relative to the smaller of delta and 1 - delta; what is no float is narrow."""
        smaller = np.minimum(found.upper, np.maximum(1.0 - found.lower, 1e-3))
        return (found.upper - found.lower <= np.minimum(self._relative() * times, _WIDE) * smaller) | (found.upper <= _NO_FLOAT)

    def _relative(self) -> np.ndarray:
        """The relative width of delta that is as good as the tolerance in epsilon."""
        return np.clip(self.tolerance * np.maximum(1.0, np.abs(self.targets)) * self.slopes, _FINEST, 0.3 * _WIDE)

    def complement(self, composition: Composition, number: int) -> bool:
        return bool(self.targets[number] < composition.rungs(np.zeros(1)).mean[0])

    def place(self, composition: Composition, infinite: Composition, number: int) -> Place | None:
        return place_at_epsilon(composition, float(self.targets[number]))

    def closer(self, place: Place, curve: Curve, found: Proved, number: int) -> Place:
        b = curve.bounds(self.targets[[number]])
        slope, log_g = abs(float(b.slope[0])), float(b.estimate[0])
        log_g = min(log_g, place.log_g + 1.0) if math.isfinite(log_g) else place.log_g - 5.0
        return place._replace(log_g=log_g, slope=slope if 0.0 < slope < math.inf else place.slope)

    def read(self, curve: Curve, composition: Composition, numbers: np.ndarray, start: float, found: Proved, floor: np.ndarray,
             number: int | None = None) -> Proved:
        if not curve.complement:
            slopes = np.abs(curve.bounds(self.targets[numbers]).slope)
            self.slopes[numbers] = np.where(np.isfinite(slopes) & (slopes > 0.0), slopes, self.slopes[numbers])
        return proved_deltas(curve, composition, self.targets[numbers])

    def again(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved, floor: np.ndarray) -> Proved:
        return self.read(curve, composition, numbers, 0.0, found, floor)

    def below(self, curve: Curve, composition: Composition, numbers: np.ndarray, floor: np.ndarray) -> Proved:
        return proved_deltas(curve, composition, self.targets[numbers])

    def between(self, curve: Curve, composition: Composition, numbers: np.ndarray, found: Proved) -> Proved:
        return proved_deltas(curve, composition, self.targets[numbers])

    def halves(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return numbers, numbers

    def within(self, form: ClosedForm, composition: Composition, numbers: np.ndarray) -> np.ndarray:
        return numbers[self.targets[numbers] >= form.start]

    def log_deltas(self, composition: Composition, found: Proved, numbers: np.ndarray) -> np.ndarray:
        finite = found.upper[numbers] - composition.infinite_mass
        return np.where(finite > 0.0, np.log(np.maximum(finite, 5e-324)), -745.0)

    def expected(self, composition: Composition, number: int, floor: np.ndarray) -> tuple[float, float]:
        return math.log(max(float(floor[number]), 1e-300)), abs(float(self.targets[number]))

    def scale(self, found: Proved, number: int) -> float:
        return abs(float(self.targets[number]))

    def wanted(self, found: Proved, numbers: np.ndarray) -> np.ndarray:
        return self._relative()[numbers] * found.upper[numbers]

    def budget(self, composition: Composition, found: Proved, numbers: np.ndarray) -> tuple[float, float]:
        return _CHEAP * self.tolerance, _LEAST_LOG
