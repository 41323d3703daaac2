"""Reports: a document is built from values, then written as Markdown, HTML, JSON and tables."""
