"""Real models of every library: one table of cases that drives the importer tests."""
