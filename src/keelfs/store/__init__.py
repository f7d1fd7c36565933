"""Trees in a database: the only room that knows SQL. `catalog` is its door."""
