"""Document datasets: seeded synthetic pages, and annotation CSV with images."""
