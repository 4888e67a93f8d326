"""Privacy losses: pairs of distributions (P, Q) with L = log dQ/dP, their quadrature rules, and which event is which pair.

    rules                          `Rule`, `Demand`: expectations under a pair, to an accuracy that is asked for
    pllr                           `Pllr`: what every kind of loss says of itself; every one is exact
    bracket                        what is known between exact pairs only: rounded up, bounded, or a class of mechanisms
    operations                     reversing, Poisson sampling, public coins: pairs from pairs, brackets from brackets
    gaussian_noise,                Gaussian noise, a mixture of its shifts, a sampled record replaced; what these have in common
    sampled_gaussian               is in `normal_mixtures`
    laplace_noise                  Laplace noise, and what is between its atoms: the worst case of bounded range
    finite_pair                    what pairs with finitely many losses have in common: `atoms` any of them, `node_pair` many
    profile_pair, profile_hull     finite pairs that dominate, or are dominated by, what is known by its delta at some epsilons:
    user_profile, renyi_curves,    profiles, Renyi curves and classes of mechanisms, selection, and any log-concave noise
    bounded_range, noise_shift     (`additive_noise` its tails, `noise_knots` where it is cut)
    mechanisms                     leaf event -> losses of both directions, one registered function per event class
    trapezoid, panels              nodes and weights, with the proof that they are enough: many sampled Gaussians as one array
                                   (`trapezoid`), one at a time or with the largest losses cut off (`panels.cut_panels`), Laplace
                                   noise (`panels.graded_edges`)
    cells                          a loss as cells of known mass, for sums of positive terms
    gaussian_curve                 closed forms of the Gaussian mechanism
    lattice_spacing                the lattice that carries all losses

Words: a rule is "cut" where it leaves out the largest losses on purpose (`Demand.log_tail`) and says how much that was; a panel is
short where the loss "bends", that is, where one term of a mixture takes over from another one; `top` is the largest shift.

To check the rules read `rules`, then `panels` and `trapezoid` (the accuracy), `normal_mixtures`, `gaussian_noise` and `laplace_noise`
(who uses them); `noise_knots` need not be read, as any knots are valid.

May import: `events`, `validation`, `intervals`.

A change here can make every bound false: a rule less accurate than `Demand` asks, a mass that is forgotten, a pair that does not
dominate its event. Nothing above this room would notice. tests/losses compares with integrals of 30 to 50 digits.

A new event needs a registered function in `mechanisms` that returns a pair of a kind there is. A new kind of loss needs a module here
with a frozen dataclass derived from `Pllr` that declares its abstract members: bounds of the loss and the masses at them, masses of
infinite losses, a rule, its largest losses, its closed form or None, its cells or None. If its absolute
moments are to be known exactly, `paper.loss_laws` needs its law.
"""
