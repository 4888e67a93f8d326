"""Privacy accountants for dp-accounting that answer analytically, and say how far they can be trusted.

>>> import dp_accounting as dpa
>>> import dp_edgeworth
>>> event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
>>> round(dp_edgeworth.EdgeworthIntervalAccountant().compose(event).get_epsilon(1e-5), 4)
10.0536

Reading order of the modules, which is also the direction in which data flows:

    events, _validate                events that dp-accounting does not have; the checks of parameters
    gaussian, pllr                   closed forms; one privacy loss: rules, reversing, sampling, mixing
    atoms, laplace_noise,            the base pairs (gathered in `noise`), with the quadrature of `trapezoid`, `panels`, `single`
    gaussian_noise
    additive_noise, noise_shift      noise named as in scipy.stats
    spacing, composition             sums of losses with counts
    mechanisms                       leaf event -> losses in both directions
    expansion, estimate              Edgeworth expansions, plain and tilted: estimates
    envelope, characteristic,        certified inversion of the characteristic function
    spectral, lattice
    intervals, leaf_sums, quick      one contour for both directions, from sums that grow with new leaves only
    closed_forms, far, deficits,     from bounds of delta to intervals of epsilon and delta, whatever the composition
    tilts, pieces, strata, cells,
    convolution, epsilon_search,
    delta_search, negligible,
    conversion
    bounds, finite_sample            the paper's own finite-sample bounds (header of `bounds` maps the modules behind it)
    accountant                       the `PrivacyAccountant` subclasses
    analysis, planning, sweeps,      questions in one call; the command line
    tradeoff, curves, cli

Words: a PLLR is a privacy-loss log-likelihood ratio L = log dQ/dP, X under P and Y under Q; `direction` is "remove" or "add"
(the paper's alpha); `order` is the paper's k; a tilt c weights a law by e^{cL}; `lower`, `estimate` and `upper` say on which side
of the truth a number is, and a bare `epsilon` is safe to report.

[EA]: Wang, Gao, Zhang, Shen, Su, Wu, "Edgeworth Accountant: An Analytical Approach to Differential Privacy Composition".
"""

from dp_edgeworth.accountants.accountant import (
    ApproximateEdgeworthAccountant,
    EdgeworthIntervalAccountant,
    NotAGuaranteeWarning,
)
from dp_edgeworth.analysis.curves import PrivacyCurves
from dp_edgeworth.analysis.explanation import EventReport, explain
from dp_edgeworth.analysis.planning import BudgetError, calibrate_noise, max_sampling_probability, max_steps
from dp_edgeworth.analysis.sampling import SamplingComparison, compare_sampling
from dp_edgeworth.analysis.statement import PrivacyStatement, delta_statement, epsilon_statement
from dp_edgeworth.analysis.sweeps import SweepResult, sweep
from dp_edgeworth.events.batch_events import RandomAllocationDpEvent, ShuffledBatchesDpEvent
from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent, PllrMomentsDpEvent
from dp_edgeworth.events.serialization import EventFormatError, from_json, to_json
from dp_edgeworth.intervals import Interval
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.mechanisms import Directions, register_mechanism
from dp_edgeworth.losses.operations import Mixed, reverse, subsample
from dp_edgeworth.losses.pllr import Pllr

__all__ = [
    "AdditiveNoiseDpEvent",
    "ApproximateEdgeworthAccountant",
    "Atoms",
    "BudgetError",
    "Directions",
    "EdgeworthIntervalAccountant",
    "EventFormatError",
    "EventReport",
    "GaussianShift",
    "Interval",
    "LaplaceShift",
    "Mixed",
    "NormalMixture",
    "NotAGuaranteeWarning",
    "Pllr",
    "PllrMomentsDpEvent",
    "PrivacyCurves",
    "PrivacyStatement",
    "RandomAllocationDpEvent",
    "SamplingComparison",
    "ShuffledBatchesDpEvent",
    "SweepResult",
    "calibrate_noise",
    "compare_sampling",
    "delta_statement",
    "epsilon_statement",
    "explain",
    "from_json",
    "max_sampling_probability",
    "max_steps",
    "register_mechanism",
    "reverse",
    "subsample",
    "sweep",
    "to_json",
]
