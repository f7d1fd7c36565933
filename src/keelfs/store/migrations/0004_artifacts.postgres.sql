-- The files that conversations keep: a number for each, and entries of memory that may link to one.

-- Numbers are never given twice; the sum is that of all spaces of kind 'artifacts', trash included.
ALTER TABLE tenants ADD COLUMN next_artifact BIGINT  NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN next_memory BIGINT  NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN artifact_bytes BIGINT  NOT NULL DEFAULT 0 CHECK (artifact_bytes >= 0);

CREATE TABLE artifacts (
    tenant     BIGINT  NOT NULL,
    id         BIGINT  NOT NULL,
    space      BIGINT  NOT NULL,
    node       BIGINT  NOT NULL,
    -- Where it lies; NULL while it lies in the trash or awaits the sweep.
    path       TEXT COLLATE "C",
    updated_ns BIGINT  NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, space, node),
    FOREIGN KEY (tenant, space, node) REFERENCES nodes (tenant, space, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX artifacts_path ON artifacts (tenant, space, path) WHERE path IS NOT NULL;
CREATE INDEX artifacts_newest ON artifacts (tenant, updated_ns, id);
CREATE INDEX artifacts_of_space ON artifacts (tenant, space, updated_ns, id);

CREATE TABLE memory_entries (
    tenant           BIGINT  NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id               BIGINT  NOT NULL,
    type             TEXT COLLATE "C" NOT NULL,
    title            TEXT    NOT NULL,
    content          TEXT    NOT NULL,
    source           TEXT    NOT NULL DEFAULT '',
    -- A JSON list of texts.
    tags             TEXT    NOT NULL DEFAULT '[]',
    artifact         BIGINT ,
    -- The artifact that was linked when it went.
    expired_artifact BIGINT ,
    conversation     TEXT COLLATE "C",
    author           TEXT    NOT NULL,
    created_ns       BIGINT  NOT NULL,
    updated_ns       BIGINT  NOT NULL,
    -- An invalid entry is kept, is seen by nobody and grants nothing.
    invalidated_ns   BIGINT ,
    -- Title, content and tags, folded, for the search.
    haystack         TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX memory_entries_artifact ON memory_entries (tenant, artifact)
    WHERE artifact IS NOT NULL;

CREATE FUNCTION memory_entries_artifact_id_clear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_entries SET artifact = NULL, expired_artifact = OLD.id
     WHERE tenant = OLD.tenant AND artifact = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_entries_artifact_id_clear AFTER DELETE ON artifacts
    FOR EACH ROW EXECUTE FUNCTION memory_entries_artifact_id_clear();

-- Who asked to see an artifact of another conversation, and what came of it.
CREATE TABLE citations (
    tenant       BIGINT  NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id           TEXT COLLATE "C" NOT NULL,
    at_ns        BIGINT  NOT NULL,
    author       TEXT    NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL,
    artifact     BIGINT  NOT NULL,
    entry        BIGINT ,
    outcome      TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- The owner of the tables sees all tenants for once.
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenants', 'spaces', 'nodes', 'entries']
    LOOP
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;
-- What was there before gets its numbers now.
INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
WITH RECURSIVE tree (tenant, space, node, path) AS (
    SELECT s.tenant, s.id, 1::bigint, ''::text COLLATE "C"
      FROM spaces s
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
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenants', 'spaces', 'nodes', 'entries']
    LOOP
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['artifacts', 'memory_entries', 'citations']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = keelfs_tenant())', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO keelfs_app', name);
    END LOOP;
END $$;
