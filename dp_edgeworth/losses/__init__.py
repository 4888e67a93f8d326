"""Privacy losses: pairs of distributions (P, Q) with L = log dQ/dP, their quadrature rules, and which event is which pair.

    rules                          `Rule`, `Demand`: expectations under a pair, to an accuracy that is asked for
    pllr                           `Pllr`: what every kind of loss says of itself
    operations                     reversing, Poisson sampling, public coins: pairs from pairs
    gaussian_noise,                the kinds of losses; `sampled_gaussian` has those in which a sampled record is replaced,
    sampled_gaussian,              `noise_shift` any log-concave noise (`additive_noise` its tails, `noise_knots` where it is cut),
    laplace_noise, noise_shift,    `atoms` any finite pair, `known_moments` a loss known by four cumulants
    atoms, known_moments
    mechanisms                     leaf event -> losses of both directions, one registered function per event class
    trapezoid, panels              nodes and weights, with the proof that they are enough
    cells                          a loss as cells of known mass, for sums of positive terms
    gaussian_curve, one_use,       closed forms of one use; the lattice that carries all losses
    lattice_spacing

May import: `events`, `validation`, `intervals`.

A change here can make every bound false: a rule less accurate than `Demand` asks, a mass that is forgotten, a pair that does not
dominate its event. Nothing above this room would notice. tests/losses compares with integrals of 30 to 50 digits.

A new event needs a registered function in `mechanisms` that returns a pair of a kind there is. A new kind of loss needs a module here
with a frozen dataclass derived from `Pllr` that declares its abstract members: bounds of the loss and the masses at them, masses of
infinite losses, a pair that it dominates, a rule, its largest losses, its closed form or None, its cells or None. If its absolute
moments are to be known exactly, `paper.loss_laws` needs its law.
"""
