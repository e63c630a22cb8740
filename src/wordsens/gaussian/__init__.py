"""Gaussian matrices behind one interface: stored (``DenseGaussian``) or never stored (``LazyGaussian``)."""

from wordsens.gaussian.base import Columns, GaussianMatrix
from wordsens.gaussian.dense import DenseGaussian
from wordsens.gaussian.lazy import LazyGaussian

__all__ = ["Columns", "DenseGaussian", "GaussianMatrix", "LazyGaussian"]
