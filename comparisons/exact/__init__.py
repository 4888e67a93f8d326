"""Exact delta(epsilon) and epsilon(delta) of composed DP events: what the other methods are compared with.

Nothing here comes from dp_edgeworth. Every answer is computed twice, with different contours, periods and
quadrature nodes, in 80-bit arithmetic; `accuracy` is ten times the relative disagreement, and
`InaccurateError` is raised where it exceeds 1e-8.

One direction of one leaf is a pair (P, Q); L = log dQ/dP; K(z) = sum_i m_i log E_{Q_i}[e^{z L_i}]. Methods:

* one leaf used once (all plain Gaussians count as one leaf): closed form in 60 digits (`answers`);
* only point masses (randomised response, discrete Laplace): tilted FFT in 80 bits, exact sums (`point_masses`);
* everything else: delta(eps) = 1/(2 pi i) int e^{K(z) - z eps} / (z (z+1)) dz over Re z = c, by the
  trapezoid rule of period 2 pi / h (`contour`). The leaf transforms are quadratures along complex paths on
  which e^{iyL} decays (Im L > 0), so that a few hundred nodes serve every frequency y:
  E_Q[e^{zL}] = sum_q w_q e^{z L_q}. Where the integrand does not die out (atoms, few compositions) the part
  made of atoms only is taken out and summed exactly, and the rest is multiplied by erfc((y - Y/2)/w)/2,
  w = Y/13: a mollifier in epsilon of width about 1/Y with all moments zero, whose answer is accepted once
  doubling Y changes nothing.

Not covered (`InaccurateError`): a few uses of a leaf sampled with probability of about 1e-5 or less, whose
losses spread over many orders of magnitude at once.
"""

from comparisons.exact.answers import chernoff_epsilon, directions, exact_delta, exact_epsilon
from comparisons.exact.arithmetic import Exact, InaccurateError, Law
from comparisons.exact.compositions import Composition, chernoff_table, log_of_rule
from comparisons.exact.leaves import GaussianPair, LaplacePair, Lattice, SymmetricSubsample, Tagged

__all__ = [
    "Composition",
    "Exact",
    "GaussianPair",
    "InaccurateError",
    "LaplacePair",
    "Lattice",
    "Law",
    "SymmetricSubsample",
    "Tagged",
    "chernoff_epsilon",
    "chernoff_table",
    "directions",
    "exact_delta",
    "exact_epsilon",
    "log_of_rule",
]
