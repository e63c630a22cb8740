"""Kinds of figure that show explanations."""
