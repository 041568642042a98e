"""What no file may do: fill memory, hang HDF5, name modules, or point elsewhere."""
