"""Interpreters of the programs that a legacy file holds, over `values`."""
