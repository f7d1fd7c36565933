-- Who may ask for what. Ids are UUIDv7 in their text form, because a session's id is also the key
-- of its space.

CREATE TABLE agents (
    tenant           BIGINT  NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id               TEXT COLLATE "C" NOT NULL,
    name             TEXT    NOT NULL,
    description      TEXT,
    system_prompt    TEXT    NOT NULL DEFAULT '',
    default_model_id TEXT,
    -- JSON lists of texts.
    tags             TEXT    NOT NULL DEFAULT '[]',
    capabilities     TEXT    NOT NULL DEFAULT '[]',
    status           TEXT    NOT NULL DEFAULT 'active',
    created_ns       BIGINT  NOT NULL,
    updated_ns       BIGINT  NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE sessions (
    tenant      BIGINT  NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          TEXT COLLATE "C" NOT NULL,
    agent       TEXT COLLATE "C" NOT NULL,
    -- The user whose session it is; '' is nobody's, and only operators and the agent see it.
    owner       TEXT COLLATE "C" NOT NULL DEFAULT '',
    title       TEXT,
    tags        TEXT    NOT NULL DEFAULT '[]',
    model_id    TEXT,
    status      TEXT    NOT NULL DEFAULT 'pending',
    created_ns  BIGINT  NOT NULL,
    started_ns  BIGINT,
    finished_ns BIGINT,
    PRIMARY KEY (tenant, id),
    -- An agent goes only after its sessions, because each of them holds a space.
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX sessions_of_agent ON sessions (tenant, agent, id);

-- Of the secret only its hash is kept. What a token was made from takes it along when it goes.
CREATE TABLE tokens (
    tenant     BIGINT  NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    hash       BYTEA   NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    parent     TEXT COLLATE "C",
    role       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- NULL is no limit; paths and verbs are JSON.
    owner      TEXT COLLATE "C",
    agent      TEXT COLLATE "C",
    session    TEXT COLLATE "C",
    paths      TEXT,
    verbs      TEXT,
    expires_ns BIGINT,
    label      TEXT    NOT NULL DEFAULT '',
    created_ns BIGINT  NOT NULL,
    PRIMARY KEY (tenant, hash),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, parent) REFERENCES tokens (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, id) ON DELETE CASCADE
);
CREATE INDEX tokens_of_parent ON tokens (tenant, parent);
CREATE INDEX tokens_of_agent ON tokens (tenant, agent) WHERE agent IS NOT NULL;
CREATE INDEX tokens_of_session ON tokens (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX tokens_expiry ON tokens (tenant, expires_ns) WHERE expires_ns IS NOT NULL;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['agents', 'sessions', 'tokens']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = keelfs_tenant())', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO keelfs_app', name);
    END LOOP;
END $$;
