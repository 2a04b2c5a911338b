"""Figure 5 of the paper: python experiments/ensemble_size.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.ensemble_size, as `treeproof reproduce ensemble-size` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "ensemble-size", *sys.argv[1:]])
