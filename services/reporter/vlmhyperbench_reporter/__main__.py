"""Let `python -m vlmhyperbench_reporter` start the service."""

from vlmhyperbench_reporter.main import main

if __name__ == "__main__":
    main()
