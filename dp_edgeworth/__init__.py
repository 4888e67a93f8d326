"""Privacy accountants for dp-accounting that answer analytically, and say how far they can be trusted.

>>> import dp_accounting as dpa
>>> import dp_edgeworth
>>> event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
>>> round(dp_edgeworth.EdgeworthIntervalAccountant().compose(event).get_epsilon(1e-5), 4)
10.0536

The house has rooms, and data flows from each to the next ones; a room imports only from those above it in this list, and its
docstring says what is in it:

    validation, intervals    checks of parameters; what is answered with
    events                   events that dp-accounting does not have, the walk over trees, JSON, descriptions
    losses                   pairs of distributions and their quadrature rules; which event is which pair
    sums                     counts of losses: cumulants, K(z), characteristic functions
    paper                    the paper itself: Edgeworth expansions, estimates, finite-sample bounds
    proofs                   theorems: any parameters in, a true bound out
    search                   which theorem with which parameters; believed by nobody
    profiles                 events whose pair needs a certified curve (selection, sampled compositions, batches as people draw them)
    accountants              the `PrivacyAccountant` subclasses
    analysis, cli            questions in one call; the command line
    checker                  proves or refuses an answer in ball arithmetic; imports nothing of the rest

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
from dp_edgeworth.accountants.history import from_history
from dp_edgeworth.analysis.calibration import calibrate_mechanism
from dp_edgeworth.analysis.certificates import Certificate, certify, verify
from dp_edgeworth.analysis.curves import PrivacyCurves, curves
from dp_edgeworth.analysis.explanation import EventReport, explain
from dp_edgeworth.analysis.html_report import html_report
from dp_edgeworth.analysis.planning import BudgetError, calibrate_noise, max_sampling_probability, max_steps
from dp_edgeworth.analysis.provenance import Provenance, event_hash
from dp_edgeworth.analysis.sampling import SamplingComparison, compare_sampling
from dp_edgeworth.analysis.statement import PrivacyStatement, delta_statement, epsilon_statement
from dp_edgeworth.analysis.sweeps import SweepResult, sweep
from dp_edgeworth.events.batch_events import RandomAllocationDpEvent, ShuffledBatchesDpEvent
from dp_edgeworth.events.groups import for_groups
from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent, PllrMomentsDpEvent, ProfileDpEvent, RenyiDpEvent
from dp_edgeworth.events.serialization import EventFormatError, from_json, register_event, to_json
from dp_edgeworth.intervals import Interval
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.mechanisms import Directions, register_mechanism
from dp_edgeworth.losses.operations import Mixed, reverse, subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.version import __version__

__all__ = [
    "AdditiveNoiseDpEvent",
    "ApproximateEdgeworthAccountant",
    "Atoms",
    "BudgetError",
    "Certificate",
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
    "ProfileDpEvent",
    "Provenance",
    "RandomAllocationDpEvent",
    "RenyiDpEvent",
    "SamplingComparison",
    "ShuffledBatchesDpEvent",
    "SweepResult",
    "__version__",
    "calibrate_mechanism",
    "calibrate_noise",
    "certify",
    "compare_sampling",
    "curves",
    "delta_statement",
    "epsilon_statement",
    "event_hash",
    "explain",
    "for_groups",
    "from_history",
    "from_json",
    "html_report",
    "max_sampling_probability",
    "max_steps",
    "register_event",
    "register_mechanism",
    "reverse",
    "subsample",
    "sweep",
    "to_json",
    "verify",
]
