"""The same events through every accountant: which one to trust, how tight it is, what it costs.

    python -m comparisons quickstart          one case, every method, a table and a picture
    python -m comparisons list                the cases and the methods
    python -m comparisons run dp-sgd-mnist    a table and a CSV

Data flows one way. `cases` names the events, `methods` the accountants (`peers` adapts those that are not
`PrivacyAccountant`s already), `runner` measures every (case, m, delta, method) in a child process with limits
on time and memory and judges the answer, `report` prints the rows and keeps them in a CSV, `figures` draws
from the CSV alone. The truth is `exact`, which shares no code with `dp_edgeworth`. The package is not part of
the wheel.

Keys of the citations in this package:
  [EA]    Wang, Gao, Zhang, Shen, Su, Wu: Edgeworth Accountant: An Analytical Approach to Differential Privacy Composition.
  [BDLS]  Bu, Dong, Long, Su: Deep learning with Gaussian differential privacy, 2019, arXiv:1911.11607.
  [DRS]   Dong, Roth, Su: Gaussian differential privacy, 2019, arXiv:1905.02383.
  [ZDLS]  Zheng, Dong, Long, Su: Sharp composition bounds for GDP via Edgeworth expansion, 2020, arXiv:2003.04493.
  [GLW]   Gopi, Lee, Wutschitz: Numerical composition of differential privacy, 2021, arXiv:2106.02848.
  [ZDW]   Zhu, Dong, Wang: Optimal accounting of DP via characteristic function, 2021, arXiv:2106.08567.
"""
