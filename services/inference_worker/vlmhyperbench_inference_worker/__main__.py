"""`python -m vlmhyperbench_inference_worker`."""

from vlmhyperbench_inference_worker.main import main

if __name__ == "__main__":
    main()
