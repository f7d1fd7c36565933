-- The views in the shape that is documented: whole contents, holes in their place, readable ids
-- and times.

DROP VIEW session_files;
DROP VIEW fs_chunks;
DROP VIEW fs_entries;

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
       n.mode AS mode,
       CASE n.kind WHEN 3 THEN octet_length(n.target) ELSE n.size END AS size,
       n.mtime_ns / 1000000 AS mtime,
       n.target AS symlink_target, tree.tenant AS tenant, tree.space AS space, n.id AS node
  FROM tree JOIN nodes n
    ON n.tenant = tree.tenant AND n.space = tree.space AND n.id = tree.node;

-- The pieces of a file in their order. A hole of more than 64 MiB is one piece without data.
CREATE VIEW fs_chunks AS
SELECT f.path AS path,
       row_number() OVER (PARTITION BY f.path ORDER BY p.extent, p.start) - 1 AS chunk_index,
       p.data AS data
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN (
        SELECT c.tenant, c.id AS content, 0 AS extent, 0 AS start, c.data AS data
          FROM contents c WHERE c.data IS NOT NULL
        UNION ALL
        SELECT c.tenant, c.id, x.key, coalesce(k.start, 0),
               CASE WHEN json_extract(x.value, '$[0]') <> 0
                    THEN substr(k.data,
                        max(json_extract(x.value, '$[1]') - k.start, 0) + 1,
                        min(k.start + length(k.data),
                            json_extract(x.value, '$[1]') + json_extract(x.value, '$[2]'))
                        - max(json_extract(x.value, '$[1]'), k.start))
                    WHEN json_extract(x.value, '$[2]') <= 67108864
                    THEN zeroblob(json_extract(x.value, '$[2]')) END
          FROM contents c
          JOIN json_each(c.extents) x
          LEFT JOIN chunks k
            ON k.tenant = c.tenant AND k.strand = json_extract(x.value, '$[0]')
           AND k.start < json_extract(x.value, '$[1]') + json_extract(x.value, '$[2]')
           AND k.start + length(k.data) > json_extract(x.value, '$[1]')
         WHERE c.extents IS NOT NULL
       ) p ON p.tenant = n.tenant AND p.content = n.content;

-- `content` is NULL for a directory, and for a file of more than 256 MiB.
CREATE VIEW session_files AS
SELECT lower(substr(hex(n.uuid), 1, 8) || '-' || substr(hex(n.uuid), 9, 4) || '-'
          || substr(hex(n.uuid), 13, 4) || '-' || substr(hex(n.uuid), 17, 4) || '-'
          || substr(hex(n.uuid), 21)) AS id,
       s.key AS session_id,
       substr(f.path, length('/' || t.name || '/' || s.kind || '/' || s.key) + 1) AS path,
       CASE WHEN n.kind <> 2 OR n.size > 268435456 THEN NULL
            WHEN n.size = 0 THEN x''
            WHEN c.data IS NOT NULL THEN c.data
            ELSE (SELECT CAST(group_concat(CAST(k.data AS TEXT), '' ORDER BY k.chunk_index) AS BLOB)
                    FROM fs_chunks k WHERE k.path = f.path) END AS content,
       n.kind = 1 AS is_directory, n.readonly = 1 AS is_readonly, f.size AS size_bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', n.created_ns / 1e9, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', n.mtime_ns / 1e9, 'unixepoch') AS updated_at
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN spaces s ON s.tenant = f.tenant AND s.id = f.space
  JOIN tenants t ON t.id = s.tenant
  LEFT JOIN contents c ON c.tenant = n.tenant AND c.id = n.content
 WHERE s.kind = 'session' AND n.id <> 1;
