"""Side-by-side runs with other tools; RESULTS.md says when and on which machine."""
