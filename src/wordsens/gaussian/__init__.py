"""Gaussian matrices behind one interface, stored or never stored."""

from wordsens.gaussian.base import Columns, GaussianMatrix
from wordsens.gaussian.dense import DenseGaussian
from wordsens.gaussian.lazy import LazyGaussian
from wordsens.gaussian.parted import PartedGaussian

__all__ = ["Columns", "DenseGaussian", "GaussianMatrix", "LazyGaussian", "PartedGaussian"]
