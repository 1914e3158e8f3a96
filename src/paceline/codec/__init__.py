"""Codecs: fewer bytes for a tensor on its way between machines."""
