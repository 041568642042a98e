"""Guards against hostile files: memory, hangs in HDF5, module names, links."""
