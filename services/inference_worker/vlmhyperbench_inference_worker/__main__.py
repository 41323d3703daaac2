"""`python -m vlmhyperbench_inference_worker`."""

from vlmhyperbench_inference_worker.main import main

main()
