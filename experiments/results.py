"""Table IV of the paper: python experiments/results.py [--quick] [--data DIR] [--out DIR] [--jobs N]

Runs treeproof.experiments.results, as `treeproof reproduce results` does.
"""

import sys

from treeproof.cli import main

if __name__ == "__main__":
    main(["reproduce", "results", *sys.argv[1:]])
