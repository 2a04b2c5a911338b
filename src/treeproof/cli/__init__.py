"""The command line: options, tables, and one file per command."""
