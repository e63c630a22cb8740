"""Word sensitivity: how much a model's output can change when one word of its input changes.

    import wordsens
    raf = wordsens.build_map("raf", d=384, seed=1)
    found = wordsens.word_sensitivity(raf, X, positions="all")

The names below are imported when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "UserError": "wordsens.errors",
    "Stream": "wordsens.randomness",
    "LazyGaussian": "wordsens.gaussian",
    "DenseGaussian": "wordsens.gaussian",
    "build_map": "wordsens.maps",
    "MAPS": "wordsens.maps",
    "word_sensitivity": "wordsens.search",
    "Sensitivity": "wordsens.search",
    "vocabulary_sensitivity": "wordsens.search.vocabulary",
    "VocabularySensitivity": "wordsens.search.vocabulary",
    "Substitutions": "wordsens.search.vocabulary",
    "large_width_limit": "wordsens.theory",
    "fit": "wordsens.glm",
    "Model": "wordsens.glm",
    "SearchResult": "wordsens.glm",
    "Evaluation": "wordsens.search.goals",
    "embed": "wordsens.data.inputs",
    "vocabulary": "wordsens.data.inputs",
    "Vocabulary": "wordsens.data.inputs",
    "plot": "wordsens.notebook",
    "profile": "wordsens.boolean.api",
    "Profile": "wordsens.boolean.profile",
    "Recogniser": "wordsens.boolean.recogniser",
    "layer_sensitivity": "wordsens.encoders.sensitivity",
    "LayerSensitivity": "wordsens.encoders.sensitivity",
    "input_sensitivity": "wordsens.robustness.input_sensitivity",
    "InputSensitivity": "wordsens.robustness.input_sensitivity",
    "tangent_kernel": "wordsens.robustness.tangent_kernel",
    "TangentKernel": "wordsens.robustness.tangent_kernel",
    "explain": "wordsens.encoders.explain",
    "Explanation": "wordsens.encoders.explanation",
    "Explanations": "wordsens.encoders.explanations",
    "explanation_page": "wordsens.encoders.page",
    "explanation_pages": "wordsens.encoders.page",
    "explanation_fragment": "wordsens.encoders.page",
    "Classifier": "wordsens.encoders.classifier",
    "train_classifier": "wordsens.encoders.classifier",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'wordsens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
