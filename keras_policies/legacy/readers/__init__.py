"""Bytes to `LegacyModel`: one module for each file format."""
