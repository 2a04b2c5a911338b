"""Fixed cases whose counts must not change by accident, and whose times are compared between two commits."""
