"""Changes of documents, questions and examples: pure functions with a seed."""
