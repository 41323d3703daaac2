"""Write a document as bytes: pages, text, tables, pictures."""
