"""How many steps a budget buys, for several amounts of noise; and what the same budget is to an attacker.

    python docs/examples/budget_race.py
"""

import dp_edgeworth

PROBABILITY, EPSILON, DELTA = 0.01, 3.0, 1e-6


def main() -> None:
    print(f"{'noise':>6} {'steps':>8} {'epsilon':>10} {'advantage':>10} {'found at 1 % false alarms':>27}")
    for noise in (0.6, 0.8, 1.0, 1.5, 2.0):
        steps = dp_edgeworth.max_steps(noise_multiplier=noise, sampling_probability=PROBABILITY, target_epsilon=EPSILON,
                                       target_delta=DELTA)
        accountant = dp_edgeworth.from_history([(noise, PROBABILITY, steps)])
        print(f"{noise:>6} {steps:>8,} {accountant.get_epsilon(DELTA):>10.5f} {accountant.get_advantage():>10.4f} "
              f"{100 * accountant.get_true_positive_rates(0.01):>25.2f} %")


if __name__ == "__main__":
    main()
