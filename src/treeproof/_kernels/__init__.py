"""Numba kernels: free functions on flat arrays. Nothing outside this folder uses numba."""
