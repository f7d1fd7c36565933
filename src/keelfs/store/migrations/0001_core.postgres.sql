-- Every row carries its tenant; tenant and space lead every key. Nodes 1, 2 and 3 of a space are
-- its root, its trash, and what awaits the sweep.

CREATE TABLE tenants (
    id            BIGINT  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name          TEXT COLLATE "C" NOT NULL UNIQUE,
    limits        TEXT    NOT NULL DEFAULT '{}',
    -- What the tenant's spaces may use without asking again; never more than its limits.
    granted_bytes BIGINT  NOT NULL DEFAULT 0 CHECK (granted_bytes >= 0),
    granted_nodes BIGINT  NOT NULL DEFAULT 0 CHECK (granted_nodes >= 0),
    created_ns    BIGINT  NOT NULL
);

CREATE TABLE spaces (
    id             BIGINT  PRIMARY KEY GENERATED ALWAYS AS IDENTITY CHECK (id < 268435456),
    tenant         BIGINT  NOT NULL REFERENCES tenants (id),
    -- A snapshot is a space of kind 'snapshot' that nobody writes to.
    kind           TEXT COLLATE "C" NOT NULL,
    key            TEXT COLLATE "C" NOT NULL,
    next_node      BIGINT  NOT NULL DEFAULT 4,
    next_content   BIGINT  NOT NULL DEFAULT 1 CHECK (next_content < 34359738368),
    seq            BIGINT  NOT NULL DEFAULT 0,
    bytes          BIGINT  NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    nodes          BIGINT  NOT NULL DEFAULT 0 CHECK (nodes >= 0),
    trash_bytes    BIGINT  NOT NULL DEFAULT 0 CHECK (trash_bytes >= 0),
    trash_nodes    BIGINT  NOT NULL DEFAULT 0 CHECK (trash_nodes >= 0),
    history_bytes  BIGINT  NOT NULL DEFAULT 0 CHECK (history_bytes >= 0),
    snapshot_bytes BIGINT  NOT NULL DEFAULT 0 CHECK (snapshot_bytes >= 0),
    -- NULL while the tenant has no such limit.
    granted_bytes  BIGINT ,
    granted_nodes  BIGINT ,
    own_limits     TEXT    NOT NULL DEFAULT '{}',
    limits         TEXT    NOT NULL DEFAULT '{}',
    created_ns     BIGINT  NOT NULL,
    -- Set when the space is deleted; the sweep takes its rows away in steps.
    deleted_ns     BIGINT ,
    UNIQUE (tenant, kind, key),
    UNIQUE (tenant, id)
);

CREATE INDEX spaces_deleted ON spaces (tenant, id) WHERE deleted_ns IS NOT NULL;

CREATE TABLE nodes (
    tenant         BIGINT  NOT NULL,
    space          BIGINT  NOT NULL,
    id             BIGINT  NOT NULL,
    uuid           BYTEA    NOT NULL,
    -- 1 directory, 2 file, 3 symlink, 4 fifo, 5 socket, 6 char device, 7 block device
    kind           SMALLINT NOT NULL,
    mode           INTEGER NOT NULL,
    uid            BIGINT  NOT NULL DEFAULT 0,
    gid            BIGINT  NOT NULL DEFAULT 0,
    size           BIGINT  NOT NULL DEFAULT 0 CHECK (size >= 0),
    revision       BIGINT  NOT NULL DEFAULT 1,
    -- The oldest revision that is kept.
    first_revision BIGINT  NOT NULL DEFAULT 1,
    nlink          BIGINT  NOT NULL DEFAULT 1,
    readonly       BIGINT  NOT NULL DEFAULT 0,
    content        BIGINT ,
    sha256         BYTEA,
    mime           TEXT,
    target         TEXT,
    rdev           BIGINT  NOT NULL DEFAULT 0,
    xattrs         BYTEA,
    atime_ns       BIGINT  NOT NULL,
    mtime_ns       BIGINT  NOT NULL,
    ctime_ns       BIGINT  NOT NULL,
    created_ns     BIGINT  NOT NULL,
    -- Who made the current revision, and when.
    author         TEXT    NOT NULL,
    revised_ns     BIGINT  NOT NULL,
    -- Of a directory: its own directory, what lies below it, and how many names it holds.
    parent         BIGINT  NOT NULL DEFAULT 0,
    below_bytes    BIGINT  NOT NULL DEFAULT 0 CHECK (below_bytes >= 0),
    below_nodes    BIGINT  NOT NULL DEFAULT 0 CHECK (below_nodes >= 0),
    children       BIGINT  NOT NULL DEFAULT 0 CHECK (children >= 0),
    -- Of a directory: at least the levels of entries below it; never lowered by removals.
    height         BIGINT  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, space, id),
    FOREIGN KEY (tenant, space) REFERENCES spaces (tenant, id),
    CHECK (kind = 2 OR content IS NULL),
    CHECK (kind = 1 OR children = 0)
);

CREATE TABLE entries (
    tenant BIGINT  NOT NULL,
    space  BIGINT  NOT NULL,
    parent BIGINT  NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    node   BIGINT  NOT NULL,
    -- 1 where the node may have other names as well.
    shared BIGINT  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, space, parent, name),
    -- No foreign key leads from `node`: its check would read all names of the space whenever a node
    -- goes, or need an index that every write pays for. The check of the store looks instead.
    FOREIGN KEY (tenant, space, parent) REFERENCES nodes (tenant, space, id)
);
CREATE INDEX entries_shared ON entries (tenant, space, node) WHERE shared = 1;
-- What awaits the sweep.
CREATE INDEX entries_doomed ON entries (tenant, space) WHERE parent = 3;

-- Immutable bytes. Small ones lie in the row; others are a list of ranges of strands.
CREATE TABLE contents (
    id       BIGINT  NOT NULL,
    tenant   BIGINT  NOT NULL,
    size     BIGINT  NOT NULL,
    refs     BIGINT  NOT NULL CHECK (refs >= 0),
    -- When the last reference went.
    freed_ns BIGINT ,
    checksum BIGINT ,
    -- JSON: [[strand, offset, length], ...]; strand 0 reads as zeros.
    extents  TEXT,
    -- The strand of the last extent and its present length decide whether an append may extend it.
    tail     BIGINT ,
    data     BYTEA,
    PRIMARY KEY (tenant, id),
    CHECK (data IS NULL OR extents IS NULL)
);
CREATE INDEX contents_freed ON contents (tenant, freed_ns) WHERE freed_ns IS NOT NULL;

-- Bytes that only ever grow at their end; contents are views of them.
CREATE TABLE strands (
    id       BIGINT  NOT NULL,
    tenant   BIGINT  NOT NULL,
    length   BIGINT  NOT NULL CONSTRAINT strand_grew CHECK (length >= 0),
    refs     BIGINT  NOT NULL CHECK (refs >= 0),
    freed_ns BIGINT ,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX strands_freed ON strands (tenant, freed_ns) WHERE freed_ns IS NOT NULL;

CREATE TABLE chunks (
    tenant   BIGINT  NOT NULL,
    strand   BIGINT  NOT NULL,
    start    BIGINT  NOT NULL,
    checksum BIGINT  NOT NULL,
    data     BYTEA    NOT NULL,
    PRIMARY KEY (tenant, strand, start)
);

CREATE TABLE revisions (
    tenant   BIGINT  NOT NULL,
    space    BIGINT  NOT NULL,
    node     BIGINT  NOT NULL,
    revision BIGINT  NOT NULL,
    content  BIGINT ,
    size     BIGINT  NOT NULL,
    sha256   BYTEA,
    at_ns    BIGINT  NOT NULL,
    author   TEXT    NOT NULL,
    -- When the next revision took its place.
    until_ns BIGINT  NOT NULL,
    PRIMARY KEY (tenant, space, node, revision),
    FOREIGN KEY (tenant, space, node) REFERENCES nodes (tenant, space, id)
);
CREATE INDEX revisions_until ON revisions (tenant, space, until_ns);

CREATE TABLE changes (
    tenant   BIGINT  NOT NULL,
    space    BIGINT  NOT NULL,
    seq      BIGINT  NOT NULL,
    batch    BIGINT  NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,
    path     TEXT    NOT NULL,
    dest     TEXT,
    node     BIGINT  NOT NULL,
    revision BIGINT  NOT NULL,
    author   TEXT    NOT NULL,
    at_ns    BIGINT  NOT NULL,
    detail   TEXT,
    PRIMARY KEY (tenant, space, seq)
);

CREATE TABLE trash (
    tenant     BIGINT  NOT NULL,
    space      BIGINT  NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    node       BIGINT  NOT NULL,
    path       TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    at_ns      BIGINT  NOT NULL,
    expires_ns BIGINT  NOT NULL,
    PRIMARY KEY (tenant, space, id)
);
CREATE INDEX trash_expires ON trash (tenant, expires_ns);

CREATE TABLE snapshots (
    tenant BIGINT  NOT NULL,
    space  BIGINT  NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    -- The space that holds the tree as it was.
    image  BIGINT  NOT NULL,
    seq    BIGINT  NOT NULL,
    author TEXT    NOT NULL,
    at_ns  BIGINT  NOT NULL,
    bytes  BIGINT  NOT NULL,
    nodes  BIGINT  NOT NULL,
    PRIMARY KEY (tenant, space, name),
    FOREIGN KEY (tenant, space) REFERENCES spaces (tenant, id),
    FOREIGN KEY (tenant, image) REFERENCES spaces (tenant, id)
);

CREATE TABLE requests (
    tenant      BIGINT  NOT NULL,
    space       BIGINT  NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA    NOT NULL,
    answer      BYTEA    NOT NULL,
    at_ns       BIGINT  NOT NULL,
    PRIMARY KEY (tenant, space, key)
);
CREATE INDEX requests_at ON requests (tenant, at_ns);

-- Nodes that a transaction copies, and the ids of their copies; empty between transactions.
CREATE TABLE marks (
    tenant  BIGINT NOT NULL,
    space   BIGINT NOT NULL,
    node    BIGINT NOT NULL,
    becomes BIGINT NOT NULL,
    PRIMARY KEY (tenant, space, node)
);

ALTER TABLE contents ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE chunks ALTER COLUMN data SET STORAGE EXTERNAL;
-- Rows that are rewritten at every write stay on their page.
ALTER TABLE spaces SET (fillfactor = 50);
ALTER TABLE nodes SET (fillfactor = 80);

-- The tree as two flat tables, for whoever opens the database with SQL.
CREATE VIEW fs_entries WITH (security_invoker = true) AS
WITH RECURSIVE tree (tenant, space, node, path) AS (
    SELECT s.tenant, s.id, 1::bigint, '/' || t.name || '/' || s.kind || '/' || s.key
      FROM spaces s JOIN tenants t ON t.id = s.tenant
     WHERE s.kind <> 'snapshot' AND s.deleted_ns IS NULL
    UNION ALL
    SELECT e.tenant, e.space, e.node, tree.path || '/' || e.name
      FROM tree JOIN entries e
        ON e.tenant = tree.tenant AND e.space = tree.space AND e.parent = tree.node
)
SELECT tree.path AS path,
       CASE n.kind WHEN 1 THEN 'directory' WHEN 2 THEN 'file' WHEN 3 THEN 'symlink'
                   WHEN 4 THEN 'fifo' WHEN 5 THEN 'socket' WHEN 6 THEN 'char_device'
                   ELSE 'block_device' END AS type,
       n.mode AS mode, n.size AS size, n.mtime_ns / 1000000 AS mtime,
       n.target AS symlink_target, tree.tenant AS tenant, tree.space AS space, n.id AS node
  FROM tree JOIN nodes n
    ON n.tenant = tree.tenant AND n.space = tree.space AND n.id = tree.node;

CREATE VIEW fs_chunks WITH (security_invoker = true) AS
SELECT f.path AS path,
       row_number() OVER (PARTITION BY f.path ORDER BY p.position) - 1 AS chunk_index,
       p.data AS data
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN (
        SELECT c.tenant, c.id AS content, 0 AS position, c.data AS data
          FROM contents c WHERE c.data IS NOT NULL
        UNION ALL
        SELECT c.tenant, c.id,
               x.number * 1099511627776 + coalesce(k.start, 0),
               CASE WHEN (x.value ->> 0)::bigint = 0
                    THEN decode(repeat('00', (x.value ->> 2)::int), 'hex')
                    ELSE substr(k.data,
                        (greatest((x.value ->> 1)::bigint - k.start, 0) + 1)::int,
                        (least(k.start + length(k.data),
                            (x.value ->> 1)::bigint + (x.value ->> 2)::bigint)
                        - greatest((x.value ->> 1)::bigint, k.start))::int) END
          FROM contents c
         CROSS JOIN LATERAL jsonb_array_elements(c.extents::jsonb)
               WITH ORDINALITY AS x (value, number)
          LEFT JOIN chunks k
            ON k.tenant = c.tenant AND k.strand = (x.value ->> 0)::bigint
           AND k.start < (x.value ->> 1)::bigint + (x.value ->> 2)::bigint
           AND k.start + length(k.data) > (x.value ->> 1)::bigint
         WHERE c.extents IS NOT NULL
       ) p ON p.tenant = n.tenant AND p.content = n.content;

CREATE VIEW session_files WITH (security_invoker = true) AS
SELECT n.uuid AS id, s.key AS session_id,
       substr(f.path, length('/' || t.name || '/' || s.kind || '/' || s.key) + 1) AS path,
       c.data AS content, n.kind = 1 AS is_directory, n.readonly AS is_readonly,
       n.size AS size_bytes, n.created_ns / 1000000 AS created_at,
       n.mtime_ns / 1000000 AS updated_at
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN spaces s ON s.tenant = f.tenant AND s.id = f.space
  JOIN tenants t ON t.id = s.tenant
  LEFT JOIN contents c ON c.tenant = n.tenant AND c.id = n.content
 WHERE s.kind = 'session' AND n.id <> 1;

-- The second lock: the role that answers callers sees one tenant's rows, whatever the statement
-- says. An unset tenant is an empty text, which must match nobody.
CREATE FUNCTION keelfs_tenant() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('keelfs.tenant', true), '')::bigint $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'keelfs_app') THEN
        CREATE ROLE keelfs_app NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$;
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['spaces', 'nodes', 'entries', 'contents', 'strands', 'chunks',
                                'revisions', 'changes', 'trash', 'snapshots', 'requests',
                                'marks']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = keelfs_tenant())', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO keelfs_app', name);
    END LOOP;
END $$;
-- The list of tenants is the operator's: the application role finds one by its name, which the
-- caller has to know, or by the tenant that is bound already. Tenant 0 is the operator at work.
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenants USING (id = keelfs_tenant() OR keelfs_tenant() = 0);
GRANT SELECT, INSERT, UPDATE, DELETE ON tenants TO keelfs_app;
GRANT SELECT ON fs_entries, fs_chunks, session_files TO keelfs_app;
