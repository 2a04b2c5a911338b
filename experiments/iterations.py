"""Figure 6 of the paper: python experiments/iterations.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.iterations, as `treeproof reproduce iterations` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "iterations", *sys.argv[1:]])
