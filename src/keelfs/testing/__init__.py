"""What proves a volume, anybody's: the contract as tests, random operations, races, crashes."""
