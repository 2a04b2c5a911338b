"""Loops of the stability map."""
