"""The ground floor: arrays in, arrays out.

Kernels know nothing of frames, files or messages and import nothing but numpy and numba.
"""
