"""Helpers that every package may import: types, texts, warnings, Keras when needed."""
