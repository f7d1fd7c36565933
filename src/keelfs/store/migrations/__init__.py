"""SQL files, one per version and database; see `keelfs.store.schema`."""
