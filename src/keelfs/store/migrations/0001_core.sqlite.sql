-- Every row carries its tenant; tenant and space lead every key. Nodes 1, 2 and 3 of a space are
-- its root, its trash, and what awaits the sweep.

CREATE TABLE tenants (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL UNIQUE,
    limits        TEXT    NOT NULL DEFAULT '{}',
    -- What the tenant's spaces may use without asking again; never more than its limits.
    granted_bytes INTEGER NOT NULL DEFAULT 0 CHECK (granted_bytes >= 0),
    granted_nodes INTEGER NOT NULL DEFAULT 0 CHECK (granted_nodes >= 0),
    created_ns    INTEGER NOT NULL
) STRICT;

CREATE TABLE spaces (
    id             INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id < 268435456),
    tenant         INTEGER NOT NULL REFERENCES tenants (id),
    -- A snapshot is a space of kind 'snapshot' that nobody writes to.
    kind           TEXT    NOT NULL,
    key            TEXT    NOT NULL,
    next_node      INTEGER NOT NULL DEFAULT 4,
    next_content   INTEGER NOT NULL DEFAULT 1 CHECK (next_content < 34359738368),
    seq            INTEGER NOT NULL DEFAULT 0,
    bytes          INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    nodes          INTEGER NOT NULL DEFAULT 0 CHECK (nodes >= 0),
    trash_bytes    INTEGER NOT NULL DEFAULT 0 CHECK (trash_bytes >= 0),
    trash_nodes    INTEGER NOT NULL DEFAULT 0 CHECK (trash_nodes >= 0),
    history_bytes  INTEGER NOT NULL DEFAULT 0 CHECK (history_bytes >= 0),
    snapshot_bytes INTEGER NOT NULL DEFAULT 0 CHECK (snapshot_bytes >= 0),
    -- NULL while the tenant has no such limit.
    granted_bytes  INTEGER,
    granted_nodes  INTEGER,
    own_limits     TEXT    NOT NULL DEFAULT '{}',
    limits         TEXT    NOT NULL DEFAULT '{}',
    created_ns     INTEGER NOT NULL,
    -- Set when the space is deleted; the sweep takes its rows away in steps.
    deleted_ns     INTEGER,
    UNIQUE (tenant, kind, key),
    UNIQUE (tenant, id)
) STRICT;

CREATE INDEX spaces_deleted ON spaces (tenant, id) WHERE deleted_ns IS NOT NULL;

CREATE TABLE nodes (
    tenant         INTEGER NOT NULL,
    space          INTEGER NOT NULL,
    id             INTEGER NOT NULL,
    uuid           BLOB    NOT NULL,
    -- 1 directory, 2 file, 3 symlink, 4 fifo, 5 socket, 6 char device, 7 block device
    kind           INTEGER NOT NULL,
    mode           INTEGER NOT NULL,
    uid            INTEGER NOT NULL DEFAULT 0,
    gid            INTEGER NOT NULL DEFAULT 0,
    size           INTEGER NOT NULL DEFAULT 0 CHECK (size >= 0),
    revision       INTEGER NOT NULL DEFAULT 1,
    -- The oldest revision that is kept.
    first_revision INTEGER NOT NULL DEFAULT 1,
    nlink          INTEGER NOT NULL DEFAULT 1,
    readonly       INTEGER NOT NULL DEFAULT 0,
    content        INTEGER,
    sha256         BLOB,
    mime           TEXT,
    target         TEXT,
    rdev           INTEGER NOT NULL DEFAULT 0,
    xattrs         BLOB,
    atime_ns       INTEGER NOT NULL,
    mtime_ns       INTEGER NOT NULL,
    ctime_ns       INTEGER NOT NULL,
    created_ns     INTEGER NOT NULL,
    -- Who made the current revision, and when.
    author         TEXT    NOT NULL,
    revised_ns     INTEGER NOT NULL,
    -- Of a directory: its own directory, what lies below it, and how many names it holds.
    parent         INTEGER NOT NULL DEFAULT 0,
    below_bytes    INTEGER NOT NULL DEFAULT 0 CHECK (below_bytes >= 0),
    below_nodes    INTEGER NOT NULL DEFAULT 0 CHECK (below_nodes >= 0),
    children       INTEGER NOT NULL DEFAULT 0 CHECK (children >= 0),
    -- Of a directory: at least the levels of entries below it; never lowered by removals.
    height         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, space, id),
    FOREIGN KEY (tenant, space) REFERENCES spaces (tenant, id),
    CHECK (kind = 2 OR content IS NULL),
    CHECK (kind = 1 OR children = 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
    tenant INTEGER NOT NULL,
    space  INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    node   INTEGER NOT NULL,
    -- 1 where the node may have other names as well.
    shared INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, space, parent, name),
    -- No foreign key leads from `node`: its check would read all names of the space whenever a node
    -- goes, or need an index that every write pays for. The check of the store looks instead.
    FOREIGN KEY (tenant, space, parent) REFERENCES nodes (tenant, space, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_shared ON entries (tenant, space, node) WHERE shared = 1;
-- What awaits the sweep.
CREATE INDEX entries_doomed ON entries (tenant, space) WHERE parent = 3;

-- Immutable bytes. Small ones lie in the row; others are a list of ranges of strands.
CREATE TABLE contents (
    id       INTEGER PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    refs     INTEGER NOT NULL CHECK (refs >= 0),
    -- When the last reference went.
    freed_ns INTEGER,
    checksum INTEGER,
    -- JSON: [[strand, offset, length], ...]; strand 0 reads as zeros.
    extents  TEXT,
    -- The strand of the last extent and its present length decide whether an append may extend it.
    tail     INTEGER,
    data     BLOB,
    CHECK (data IS NULL OR extents IS NULL)
) STRICT;
CREATE INDEX contents_freed ON contents (tenant, freed_ns) WHERE freed_ns IS NOT NULL;

-- Bytes that only ever grow at their end; contents are views of them.
CREATE TABLE strands (
    id       INTEGER PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    length   INTEGER NOT NULL CONSTRAINT strand_grew CHECK (length >= 0),
    refs     INTEGER NOT NULL CHECK (refs >= 0),
    freed_ns INTEGER
) STRICT;
CREATE INDEX strands_freed ON strands (tenant, freed_ns) WHERE freed_ns IS NOT NULL;

-- With row ids: a search in a tree without them reads every row that it compares with, bytes and all.
CREATE TABLE chunks (
    tenant   INTEGER NOT NULL,
    strand   INTEGER NOT NULL,
    start    INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    data     BLOB    NOT NULL,
    PRIMARY KEY (tenant, strand, start)
) STRICT;

CREATE TABLE revisions (
    tenant   INTEGER NOT NULL,
    space    INTEGER NOT NULL,
    node     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    content  INTEGER,
    size     INTEGER NOT NULL,
    sha256   BLOB,
    at_ns    INTEGER NOT NULL,
    author   TEXT    NOT NULL,
    -- When the next revision took its place.
    until_ns INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, node, revision),
    FOREIGN KEY (tenant, space, node) REFERENCES nodes (tenant, space, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX revisions_until ON revisions (tenant, space, until_ns);

CREATE TABLE changes (
    tenant   INTEGER NOT NULL,
    space    INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    batch    INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    path     TEXT    NOT NULL,
    dest     TEXT,
    node     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    author   TEXT    NOT NULL,
    at_ns    INTEGER NOT NULL,
    detail   TEXT,
    PRIMARY KEY (tenant, space, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE trash (
    tenant     INTEGER NOT NULL,
    space      INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    node       INTEGER NOT NULL,
    path       TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    at_ns      INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX trash_expires ON trash (tenant, expires_ns);

CREATE TABLE snapshots (
    tenant INTEGER NOT NULL,
    space  INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    -- The space that holds the tree as it was.
    image  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    author TEXT    NOT NULL,
    at_ns  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL,
    nodes  INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, name),
    FOREIGN KEY (tenant, space) REFERENCES spaces (tenant, id),
    FOREIGN KEY (tenant, image) REFERENCES spaces (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    tenant      INTEGER NOT NULL,
    space       INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    answer      BLOB    NOT NULL,
    at_ns       INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (tenant, at_ns);

-- Nodes that a transaction copies, and the ids of their copies; empty between transactions.
CREATE TABLE marks (
    tenant  INTEGER NOT NULL,
    space   INTEGER NOT NULL,
    node    INTEGER NOT NULL,
    becomes INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, node)
) STRICT, WITHOUT ROWID;

-- The tree as two flat tables, for whoever opens the database with SQL.
CREATE VIEW fs_entries AS
WITH RECURSIVE tree (tenant, space, node, path) AS (
    SELECT s.tenant, s.id, 1, '/' || t.name || '/' || s.kind || '/' || s.key
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

CREATE VIEW fs_chunks AS
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
               x.key * 1099511627776 + k.start,
               CASE WHEN json_extract(x.value, '$[0]') = 0
                    THEN zeroblob(json_extract(x.value, '$[2]'))
                    ELSE substr(k.data,
                        max(json_extract(x.value, '$[1]') - k.start, 0) + 1,
                        min(k.start + length(k.data),
                            json_extract(x.value, '$[1]') + json_extract(x.value, '$[2]'))
                        - max(json_extract(x.value, '$[1]'), k.start)) END
          FROM contents c
          JOIN json_each(c.extents) x
          LEFT JOIN chunks k
            ON k.tenant = c.tenant AND k.strand = json_extract(x.value, '$[0]')
           AND k.start < json_extract(x.value, '$[1]') + json_extract(x.value, '$[2]')
           AND k.start + length(k.data) > json_extract(x.value, '$[1]')
         WHERE c.extents IS NOT NULL
       ) p ON p.tenant = n.tenant AND p.content = n.content;

CREATE VIEW session_files AS
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
