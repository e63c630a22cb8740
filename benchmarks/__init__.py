"""Measurements against the published procedure; ``make bench`` runs them."""
