"""Boolean functions: how many single-bit flips change what a function says of a string.

After Kövér, Butoi, Svete, Hahn and Cotterell, Understanding the Parameter Space Geometry of
Transformers Encoding Boolean Functions (arXiv 2606.08768); numbers of equations are that paper's.
"""

MOST_BITS = 20  # of an exact profile: a truth table of 2^20 values
