"""Figure 2 of the paper: python experiments/figure_robustness.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.figure_robustness, as `treeproof reproduce figure-robustness` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "figure-robustness", *sys.argv[1:]])
