"""The innermost loops: plain Torch functions, each the truth that a faster kernel must equal."""
