"""The one package that touches private Keras: patches, and small accessors.

A patch makes Keras call a hook; an accessor reads what has no public name.
`private_api` comes first: it checks everything that the other modules use. Their
public names are those of the package. Nothing here imports other packages of ours.
"""

# mypy: implicit-reexport
# ruff: noqa: F401, F403

from keras_policies.keras_internals import private_api
from keras_policies.keras_internals.layers import *
from keras_policies.keras_internals.operations import *
from keras_policies.keras_internals.optimizers import *
from keras_policies.keras_internals.patches import *
from keras_policies.keras_internals.private_api import *
from keras_policies.keras_internals.saving import *
from keras_policies.keras_internals.variables import *
