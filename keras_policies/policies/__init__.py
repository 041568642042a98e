"""Dtype policies: names, the deferred ones, the global one, and what is saved."""
