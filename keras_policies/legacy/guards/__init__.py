"""Guards against hostile files: memory, hangs of HDF5, module names, links."""
