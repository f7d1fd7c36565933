-- The views in the shape that is documented: whole contents, real times, and truth values.

DROP VIEW session_files;
DROP VIEW fs_chunks;
DROP VIEW fs_entries;

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
       n.mode AS mode,
       CASE n.kind WHEN 3 THEN octet_length(n.target) ELSE n.size END AS size,
       n.mtime_ns / 1000000 AS mtime,
       n.target AS symlink_target, tree.tenant AS tenant, tree.space AS space, n.id AS node
  FROM tree JOIN nodes n
    ON n.tenant = tree.tenant AND n.space = tree.space AND n.id = tree.node;

-- The pieces of a file in their order. A hole of more than 64 MiB is one piece without data.
CREATE VIEW fs_chunks WITH (security_invoker = true) AS
SELECT f.path AS path,
       row_number() OVER (PARTITION BY f.path ORDER BY p.extent, p.start) - 1 AS chunk_index,
       p.data AS data
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN (
        SELECT c.tenant, c.id AS content, 0::bigint AS extent, 0::bigint AS start, c.data AS data
          FROM contents c WHERE c.data IS NOT NULL
        UNION ALL
        SELECT c.tenant, c.id, x.number, coalesce(k.start, 0),
               CASE WHEN (x.value ->> 0)::bigint <> 0
                    THEN substr(k.data,
                        (greatest((x.value ->> 1)::bigint - k.start, 0) + 1)::int,
                        (least(k.start + length(k.data),
                            (x.value ->> 1)::bigint + (x.value ->> 2)::bigint)
                        - greatest((x.value ->> 1)::bigint, k.start))::int)
                    WHEN (x.value ->> 2)::bigint <= 67108864
                    THEN decode(repeat('00', (x.value ->> 2)::int), 'hex') END
          FROM contents c
         CROSS JOIN LATERAL jsonb_array_elements(c.extents::jsonb)
               WITH ORDINALITY AS x (value, number)
          LEFT JOIN chunks k
            ON k.tenant = c.tenant AND k.strand = (x.value ->> 0)::bigint
           AND k.start < (x.value ->> 1)::bigint + (x.value ->> 2)::bigint
           AND k.start + length(k.data) > (x.value ->> 1)::bigint
         WHERE c.extents IS NOT NULL
       ) p ON p.tenant = n.tenant AND p.content = n.content;

-- `content` is NULL for a directory, and for a file of more than 256 MiB.
CREATE VIEW session_files WITH (security_invoker = true) AS
SELECT encode(n.uuid, 'hex')::uuid AS id, s.key AS session_id,
       substr(f.path, length('/' || t.name || '/' || s.kind || '/' || s.key) + 1) AS path,
       CASE WHEN n.kind <> 2 OR n.size > 268435456 THEN NULL
            WHEN n.size = 0 THEN ''::bytea
            WHEN c.data IS NOT NULL THEN c.data
            ELSE (SELECT string_agg(k.data, ''::bytea ORDER BY k.chunk_index)
                    FROM fs_chunks k WHERE k.path = f.path) END AS content,
       n.kind = 1 AS is_directory, n.readonly = 1 AS is_readonly, f.size AS size_bytes,
       timestamptz 'epoch' + n.created_ns / 1000 * interval '1 microsecond' AS created_at,
       timestamptz 'epoch' + n.mtime_ns / 1000 * interval '1 microsecond' AS updated_at
  FROM fs_entries f
  JOIN nodes n ON n.tenant = f.tenant AND n.space = f.space AND n.id = f.node
  JOIN spaces s ON s.tenant = f.tenant AND s.id = f.space
  JOIN tenants t ON t.id = s.tenant
  LEFT JOIN contents c ON c.tenant = n.tenant AND c.id = n.content
 WHERE s.kind = 'session' AND n.id <> 1;

GRANT SELECT ON fs_entries, fs_chunks, session_files TO keelfs_app;
