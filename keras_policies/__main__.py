"""`python -m keras_policies`, the same as the command `keras-policies`."""

import sys

from keras_policies.cli.main import main

sys.exit(main())
