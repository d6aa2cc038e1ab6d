"""Fits in files: a zip archive of arrays and JSON, without code, checked when it is read."""

from cbq.io.files import load, save

__all__ = ["load", "save"]
