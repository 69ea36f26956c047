"""Task definitions (YAML) and the small samples that ship with them; data only."""
