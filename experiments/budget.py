"""Figure 7 of the paper: python experiments/budget.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.budget, as `treeproof reproduce budget` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "budget", *sys.argv[1:]])
