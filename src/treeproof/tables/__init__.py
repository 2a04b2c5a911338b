"""Rows from files, whole or in chunks, and as a model takes them."""
