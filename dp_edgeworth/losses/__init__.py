"""Privacy losses: pairs of distributions (P, Q) with L = log dQ/dP, their quadrature rules, and which event is which pair.

    rules                          `Rule`, `Demand`: expectations under a pair, to an accuracy that is asked for
    pllr                           `Pllr`: what every kind of loss says of itself
    operations                     reversing, Poisson sampling, public coins: pairs from pairs
    gaussian_noise,                Gaussian noise, a mixture of its shifts, a sampled record replaced; what these have in common
    sampled_gaussian               is in `normal_mixtures`
    laplace_noise                  Laplace noise
    finite_pair                    what pairs with finitely many losses have in common: `atoms` any of them, `lattice_pair` many
    profile_pair, profile_hull     finite pairs that dominate, or are dominated by, what is known by its delta at some epsilons:
    user_profile, class_leaf,      profiles, Renyi curves and classes of mechanisms, selection, and any log-concave noise
    renyi_curves, bounded_range,   (`additive_noise` its tails, `noise_knots` where it is cut)
    noise_shift
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
