"""The package's version, alone in a file so that building reads it without importing anything."""

__version__ = "0.1.0"
