"""Exact answers about rows: the local search, `verify`, and radii."""
