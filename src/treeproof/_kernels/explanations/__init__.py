"""Loops of explanations."""
