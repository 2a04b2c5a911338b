"""Loops of the paper's analysis."""
