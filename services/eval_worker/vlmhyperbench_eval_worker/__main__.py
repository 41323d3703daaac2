"""Let `python -m vlmhyperbench_eval_worker` start the service."""

from vlmhyperbench_eval_worker.main import main

if __name__ == "__main__":
    main()
