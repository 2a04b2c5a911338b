"""Side-by-side runs against peers; RESULTS.md says when and on what."""
