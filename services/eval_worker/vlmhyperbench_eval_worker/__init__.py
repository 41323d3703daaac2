"""The evaluation worker: INDEX, IMPORT and SCORE jobs, on the CPU."""
