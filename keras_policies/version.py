"""The version, from this one place."""

__version__ = "0.1.0"
