"""Shared by every room: checks of arguments, arrays, tables, workers, progress, memory. It imports no other room."""
