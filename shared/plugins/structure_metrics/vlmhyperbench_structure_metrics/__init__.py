"""How well an answer keeps a structure: the ladder of JSON answers, the order of pages."""
