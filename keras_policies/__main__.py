"""`python -m keras_policies`: the command `keras-policies`, once Keras is imported."""

import sys

from keras_policies.cli.main import main

sys.exit(main())
