"""Backups of a platform: the database as of one instant, and every stored file that it refers to."""
