"""The report on an encoder of the user's own: its words and its page."""
