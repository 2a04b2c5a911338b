"""Model files with one field changed, and the two sides that read them: treeproof and the library."""
