"""Celery as a notification channel: a message carries only a job's id and may be lost, duplicated or late."""
