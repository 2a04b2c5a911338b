"""Loops of the local search."""
