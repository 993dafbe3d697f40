"""Nodes of groups whose leader is a client: documents, paths, what everybody can tell."""
