"""Metrics as pure functions of tensors, arrays and strings; nothing of the engine is imported here."""
