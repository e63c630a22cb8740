"""Kinds of figure that show this kind of study."""
