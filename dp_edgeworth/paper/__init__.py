"""The paper itself: Edgeworth expansions, the estimates made from them, and finite-sample bounds of their distance to the truth.

    expansion                    Edgeworth expansions of any order; delta(epsilon) from them, plain (the AEA) and tilted
    estimate                     epsilon and delta of a composition: estimates
    finite_sample                the EEAI: intervals from expansions and proved distances (bound="uniform", bound="adaptive")
    expansion_distance           the sum of all X or Y of one direction: its expansions, each with its distance
    lemma_4_3                    the paper's own bound by moments, of any independent summands          m^(-1/2)     closed form
    prawitz_bounds               Delta_k, k = 1, 2, 3, from the cf f_S itself and E S^4                 m^(-(k+1)/2) 200 to 6,000 values
    standardised_sum             f_S on a grid, and bounds of it beyond
    prawitz_kernel               Prawitz's smoothing kernel, special functions
    moments, loss_laws           moments of one loss, the absolute ones with both sides of their kink
    cumulants, known_moments     cumulants of sums; a loss of which no more is known than four of them
    saddle_point                 tilts at which bounds and expansions are best
    exponential_tail             Chernoff's tails of both sums of a direction

X_1..X_m independent, S their standardised sum, F its cdf, E_k its Edgeworth expansion of order k and Delta_k = sup_x |F(x) - E_k(x)|.
Every distance is an upper bound, arithmetic included: an integral is a closed form, or a sum of cell-wise upper bounds, or a
Gauss-Legendre sum of an analytic integrand converged to rounding; the result is raised by the relative 1e-12. No cost grows with m.
Where f_S can be evaluated Prawitz's bound is usually within 25% of the truth, of the order of the expansion until 1.26/T dominates,
T being the point up to which |f_S| is known to be small. Without smoothness m^(-1/2) is the true rate. Tails are Chernoff's
(`paper.exponential_tail`), which are never above those of [EA] Section 4.5.

Who proved it. [EA]: Wang, Gao, Zhang, Shen, Su, Wu, "Edgeworth Accountant: An Analytical Approach to Differential Privacy Composition".
Lemma 4.3 and Appendix E are adapted there from Derumigny, Girard, Guyonvarch, "Explicit non-asymptotic bounds for the distance to the
first-order Edgeworth expansion"; the smoothing inequality is Prawitz (1972), the cf inequalities are Shevtsova's and Tyurin's. Departs
from [EA]: the printed remainders are repaired (docs/errata.md); orders 2 and 3 are not in [EA].

May import: `sums`, `losses`, `events`, `validation`, `intervals`.

A change here can make the intervals of bound="uniform" and bound="adaptive" false, and estimates worse. Those of the default,
bound="spectral", do not depend on this room: estimates only say where to look.
"""

from dp_edgeworth.paper import known_moments

__all__ = ["known_moments"]
