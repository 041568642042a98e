"""Layers whose classes are lost, made of their recorded functions: dicts only."""
