"""The command `keras-policies`."""
