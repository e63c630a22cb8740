"""Trained encoders and language models: what a changed word does to their layers and answers."""
