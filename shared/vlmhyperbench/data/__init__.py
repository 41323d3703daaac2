"""Samples on their way to a model: sample manifests, images by content, the dataset cache, weights."""
