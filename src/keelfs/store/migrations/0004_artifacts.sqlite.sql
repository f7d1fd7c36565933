-- The files that conversations keep: a number for each, and entries of memory that may link to one.

-- Numbers are never given twice; the sum is that of all spaces of kind 'artifacts', trash included.
ALTER TABLE tenants ADD COLUMN next_artifact INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN next_memory INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN artifact_bytes INTEGER NOT NULL DEFAULT 0 CHECK (artifact_bytes >= 0);

CREATE TABLE artifacts (
    tenant     INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    space      INTEGER NOT NULL,
    node       INTEGER NOT NULL,
    -- Where it lies; NULL while it lies in the trash or awaits the sweep.
    path       TEXT   ,
    updated_ns INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, space, node),
    FOREIGN KEY (tenant, space, node) REFERENCES nodes (tenant, space, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX artifacts_path ON artifacts (tenant, space, path) WHERE path IS NOT NULL;
CREATE INDEX artifacts_newest ON artifacts (tenant, updated_ns, id);
CREATE INDEX artifacts_of_space ON artifacts (tenant, space, updated_ns, id);

CREATE TABLE memory_entries (
    tenant           INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id               INTEGER NOT NULL,
    type             TEXT    NOT NULL,
    title            TEXT    NOT NULL,
    content          TEXT    NOT NULL,
    source           TEXT    NOT NULL DEFAULT '',
    -- A JSON list of texts.
    tags             TEXT    NOT NULL DEFAULT '[]',
    artifact         INTEGER,
    -- The artifact that was linked when it went.
    expired_artifact INTEGER,
    conversation     TEXT   ,
    author           TEXT    NOT NULL,
    created_ns       INTEGER NOT NULL,
    updated_ns       INTEGER NOT NULL,
    -- An invalid entry is kept, is seen by nobody and grants nothing.
    invalidated_ns   INTEGER,
    -- Title, content and tags, folded, for the search.
    haystack         TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_entries_artifact ON memory_entries (tenant, artifact)
    WHERE artifact IS NOT NULL;

CREATE TRIGGER memory_entries_artifact_id_clear AFTER DELETE ON artifacts
BEGIN
    UPDATE memory_entries SET artifact = NULL, expired_artifact = OLD.id
     WHERE tenant = OLD.tenant AND artifact = OLD.id;
END;

-- Who asked to see an artifact of another conversation, and what came of it.
CREATE TABLE citations (
    tenant       INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id           TEXT    NOT NULL,
    at_ns        INTEGER NOT NULL,
    author       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    artifact     INTEGER NOT NULL,
    entry        INTEGER,
    outcome      TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- What was there before gets its numbers now.
INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
WITH RECURSIVE tree (tenant, space, node, path) AS (
    SELECT s.tenant, s.id, 1, '' FROM spaces s
     WHERE s.kind = 'artifacts' AND s.deleted_ns IS NULL
    UNION ALL
    SELECT e.tenant, e.space, e.node, tree.path || '/' || e.name
      FROM tree JOIN entries e
        ON e.tenant = tree.tenant AND e.space = tree.space AND e.parent = tree.node
)
SELECT n.tenant, row_number() OVER (PARTITION BY n.tenant ORDER BY n.space, n.id), n.space, n.id,
       min(substr(tree.path, 2)), n.revised_ns
  FROM nodes n
  JOIN spaces s ON s.tenant = n.tenant AND s.id = n.space
   AND s.kind = 'artifacts' AND s.deleted_ns IS NULL
  LEFT JOIN tree ON tree.tenant = n.tenant AND tree.space = n.space AND tree.node = n.id
 WHERE n.kind = 2
 GROUP BY n.tenant, n.space, n.id, n.revised_ns;
UPDATE tenants SET
    next_artifact = 1 + coalesce((SELECT max(a.id) FROM artifacts a
                                   WHERE a.tenant = tenants.id), 0),
    artifact_bytes = coalesce((SELECT sum(s.bytes + s.trash_bytes) FROM spaces s
                                WHERE s.tenant = tenants.id AND s.kind = 'artifacts'
                                  AND s.deleted_ns IS NULL), 0);
