"""`python -m vlmhyperbench_api`: serve the REST API and the live feed."""

import sys

from vlmhyperbench_api.main import main

sys.exit(main())
