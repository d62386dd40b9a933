"""Provide what this machine lacks: models, data sets, images, metrics and encodings."""
