"""Transformer blocks with random weights, and their one-token views.

block  one block: attention and MLP, each with residual connection and layer norm
view   the one-token view through all blocks
"""
