"""The `.keras` files of Keras 2: a zip, and HDF5 in it without names of weights."""
