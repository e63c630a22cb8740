"""The suite of Gaussian matrices, for every kind of them."""

import torch

from wordsens.gaussian import Columns, DenseGaussian, LazyGaussian, PartedGaussian
from wordsens.testing import GaussianConformance


class TestDense(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        return DenseGaussian.draw(rows, columns, streams, **options)


class TestLazy(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        return LazyGaussian(rows, columns, streams, **options)


class TestColumnsOfLazy(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        whole = LazyGaussian(rows, columns + 7, streams, **options)
        return Columns(whole, torch.arange(3, columns + 3))


class TestParted(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        whole = PartedGaussian(rows, columns, streams, **options)
        whole.part(torch.arange(3, 9))
        return whole


class TestPartOfParted(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        whole = PartedGaussian(rows, columns + 7, streams, **options)
        return whole.part(torch.arange(3, columns + 3))


class TestASecondPartOfParted(GaussianConformance):
    def make(self, rows, columns, streams, **options):
        whole = PartedGaussian(rows, columns + 7, streams, **options)
        whole.part(torch.arange(2, 6))
        return whole.part(torch.arange(3, columns + 3))
