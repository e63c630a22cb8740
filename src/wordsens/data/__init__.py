"""From texts to samples: corpora, encoders, embeddings (HDF5) and samples of n tokens."""
