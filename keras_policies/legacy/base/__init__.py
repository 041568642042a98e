"""Values, names and errors that all packages of `legacy/` share; no I/O."""
