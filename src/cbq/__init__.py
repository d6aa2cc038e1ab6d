"""Conditional expectations with honest uncertainty, from few evaluations of an expensive function."""

__version__ = "0.1.0.dev0"
