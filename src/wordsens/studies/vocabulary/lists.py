"""The lists of substitutions that a cell holds."""

# Over all candidates, and over those inside the ball of (4).
LISTS = ("top", "top_in_ball")
