"""Transfer to real tables: their data, fetched once and checked."""
