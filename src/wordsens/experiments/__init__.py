"""Experiments: each takes a cell's parameters and returns its arrays."""
