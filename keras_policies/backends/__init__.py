"""What each backend does its own way.

`running.backend` does it for the backend that Keras runs on. To add a backend, write
a module that is named as Keras names the backend, with a `backend` that fulfils
`protocol.Backend`, and enter the name here.
"""

# The backends with a module of their own. Others, such as numpy, have no gradients.
# Nothing here imports Keras: `backend_missing` needs the names where that fails.
NAMES = "jax", "tensorflow", "torch"
