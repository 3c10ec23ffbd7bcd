"""What commands print for people: tables, texts, pages and progress. Nothing here does a command's work."""
