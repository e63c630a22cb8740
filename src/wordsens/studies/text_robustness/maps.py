"""Maps that see a text as one long vector and have a kernel form (``wordsens.robustness``)."""

KERNEL_FORMS = ("rf",)
