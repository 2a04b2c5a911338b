"""Model files with one field changed, and doors: treeproof on one side and the libraries on the other."""

import os

# Sums must not depend on threads, and threads that wait for one another take most of the time where cores are few.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
