"""Fits in files: a zip archive of arrays and JSON, without code, checked when it is read."""

from cbq.persistence.files import load, save

__all__ = ["load", "save"]
