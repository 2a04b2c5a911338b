"""Compiled loops of training: where attacks bring rows, splits, leaves, and their scores."""
