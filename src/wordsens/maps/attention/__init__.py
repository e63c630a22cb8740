"""Attention layers with random weights, and their one-token views at O(nd) a step.

layer          the maps' common class
state          a sample seen through a layer, and projections
normalization  scores → weights: softmax, ReLU
leave_out      what the other words contribute
view           the one-token view
bound          an upper bound for softmax
directions     where searches start
"""
