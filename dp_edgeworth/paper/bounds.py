"""Finite-sample bounds: how far a sum is from its Edgeworth expansion, and how heavy its upper tail is.

X_1..X_m independent, S their standardised sum, F its cdf, E_k its Edgeworth expansion of order k and
Delta_k = sup_x |F(x) - E_k(x)|. Every function returns an upper bound; none of them knows what a mechanism is.

function           bounds                 needs                                 order         cost
lemma_4_3          Delta_1                K3, K3~, K4, lambda3                  m^(-1/2)      closed form
sharp              Delta_1                the same; smaller if i.i.d.           m^(-1/2)      5,000 cells
berry_esseen       sup_x |F(x) - Phi(x)|  the same                              m^(-1/2)      as sharp
sharp_smooth       Delta_1                the same, integral of |f_S|/u         m^-1          2,500 cells
prawitz            Delta_k, k = 1, 2, 3   the cf f_S itself, E S^4              m^(-(k+1)/2)  200 to 6,000 values
chernoff_tail      P(sum X >= epsilon)    log-MGF of the sum                    exponential   300 values
lipschitz_tail     P(sum X >= epsilon)    means, sub-Gaussian proxies           exponential   closed form
theorem_4_5_tail   P(sum X >= epsilon)    subsampled Gaussian, X = L(xi)        exponential   24,000 cells
laplace_tail       P(sum X >= epsilon)    subsampled Laplace, both directions   exponential   1,600 nodes

No cost grows with m. What applies when:
* Four moments known and nothing else (any independent summands, lattices and atoms included): `sharp`. It is never
  above `lemma_4_3`, which is kept because it is the paper's own bound. Without smoothness m^(-1/2) is the true rate.
* The cf is known to be small far out (say, from `leaf_envelope`): `sharp_smooth`; needs no value of the cf.
* The cf can be evaluated: `prawitz`, usually within 25% of the truth. The order is that of the expansion until
  1.26/T dominates, T being the point up to which |f_S| is known to be small. It is about the function E_k as given: S
  need not be standardised exactly, which the bounds by moments take for granted.
* Moments that are not known exactly: every bound by moments holds for upper bounds of K3, K3~, K4 and |lambda3|.
* Upper tails: `chernoff_tail` is the best of them wherever a log-MGF is at hand; the others need less.

Who proved it. [EA]: Wang, Gao, Zhang, Shen, Su, Wu, "Edgeworth Accountant: An Analytical Approach to Differential
Privacy Composition". Lemma 4.3 and Appendix E are adapted there from Derumigny, Girard, Guyonvarch, "Explicit
non-asymptotic bounds for the distance to the first-order Edgeworth expansion"; the smoothing inequality is Prawitz
(1972), the cf inequalities are Shevtsova's and Tyurin's. Departs from [EA]: the printed remainders, Theorem 4.5's proof
and the C_0 corollary are repaired (docs/errata.md); `sharp`, `sharp_smooth` and `prawitz` are re-derived bounds, not in
[EA].

Modules: `smoothing` (kernel and special functions), `lemma` (moments, Lemma 4.3), `sharp`, `characteristic_bounds`
(`prawitz` and envelopes), `tails`; this one only names them. `distances` applies them to sums of privacy losses.

"Upper bound" includes the arithmetic: an integral is a closed form, or a sum of cell-wise upper bounds, or a
Gauss-Legendre sum of an analytic integrand converged to rounding; the result is raised by the relative 1e-12.
"""

from __future__ import annotations

from dp_edgeworth.paper.first_order_bounds import berry_esseen, sharp, sharp_smooth
from dp_edgeworth.paper.lemma_4_3 import Moments, lemma_4_3
from dp_edgeworth.paper.prawitz_bounds import envelope_integral, expansion_coefficients, leaf_envelope, prawitz
from dp_edgeworth.paper.prawitz_kernel import Envelope
from dp_edgeworth.paper.tail_bounds import chernoff_tail, laplace_tail, lipschitz_tail, theorem_4_5_tail

__all__ = [
    "Envelope",
    "Moments",
    "berry_esseen",
    "chernoff_tail",
    "envelope_integral",
    "expansion_coefficients",
    "laplace_tail",
    "leaf_envelope",
    "lemma_4_3",
    "lipschitz_tail",
    "prawitz",
    "sharp",
    "sharp_smooth",
    "theorem_4_5_tail",
]
