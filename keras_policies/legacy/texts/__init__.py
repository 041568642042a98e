"""What layers of texts compute, in numpy and plain Python; see `inputs.TextInputs`."""
