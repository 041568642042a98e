"""Text layers in numpy and plain Python; see `inputs.TextInputs`."""
