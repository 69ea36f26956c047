"""What a finished run says: analysis, tables, figures and one HTML file."""
