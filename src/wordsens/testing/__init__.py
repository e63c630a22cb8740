"""Suites of properties that every map and every Gaussian matrix has; pytest collects them.

    from wordsens.testing import MapConformance

    class TestMine(MapConformance):
        map = "mine"

They need pytest and hypothesis (``pip install 'wordsens[test]'``).
"""

from wordsens.testing.gaussian import GaussianConformance
from wordsens.testing.maps import MapConformance, check_view, moved, sample

__all__ = ["GaussianConformance", "MapConformance", "check_view", "moved", "sample"]
