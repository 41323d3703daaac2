"""Write a load plan, start the load generator, read its lines and its record."""
