"""The doctor for ensembles with old consumers."""
