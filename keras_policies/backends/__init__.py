"""Operations that depend on the backend, and what it computes wrongly on this machine.

`running.backend` is the one in use.
"""

# The backends with a module of their own. Others, such as numpy, have no gradients.
# Nothing here imports Keras: `backend_missing` needs the names where that fails.
NAMES = "jax", "tensorflow", "torch"
