"""GENERATE jobs: gateway, load generator, sink and device samples."""
