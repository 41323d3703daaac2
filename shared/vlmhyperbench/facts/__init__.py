"""Facts: narrow rows in the database and payloads in chunks in storage; only this package joins them."""
