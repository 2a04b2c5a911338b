"""Table III of the paper: python experiments/shortcomings.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.shortcomings, as `treeproof reproduce shortcomings` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "shortcomings", *sys.argv[1:]])
