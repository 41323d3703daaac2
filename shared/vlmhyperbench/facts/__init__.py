"""Facts: narrow rows in the database, payloads in chunks in storage, joined here and nowhere else."""
