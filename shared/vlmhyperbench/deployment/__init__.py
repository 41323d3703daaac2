"""What turns a machine into one that runs the platform in containers: its secrets, its inference workers, its checks."""
