"""Dtype policies: names, deferred policies, the global policy, and saving."""
