"""What a machine needs to run the platform in containers: its secrets, its inference workers, its checks."""
