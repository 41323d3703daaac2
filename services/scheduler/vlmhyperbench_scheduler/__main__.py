"""Let `python -m vlmhyperbench_scheduler` start the service."""

from vlmhyperbench_scheduler.main import main

if __name__ == "__main__":
    main()
