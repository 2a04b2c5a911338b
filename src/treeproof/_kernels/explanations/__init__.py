"""Compiled loops over the questions of an explanation."""
