"""Celery as routing and doorbell: a message says "look", carries an id, and may be lost, doubled or late."""
