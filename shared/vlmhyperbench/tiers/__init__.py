"""Move finished runs between Postgres, Parquet files and archives, and delete what nobody keeps."""
