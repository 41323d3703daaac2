"""The REST API and the live feed."""
