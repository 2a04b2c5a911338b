"""Figure 4 of the paper: python experiments/epsilon.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.epsilon, as `treeproof reproduce epsilon` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "epsilon", *sys.argv[1:]])
