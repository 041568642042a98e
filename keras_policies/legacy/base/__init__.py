"""What every room of `legacy/` shares: values, names and errors; no I/O."""
