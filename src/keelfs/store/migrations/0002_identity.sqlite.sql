-- Who may ask for what. Ids are UUIDv7 in their text form, because a session's id is also the key
-- of its space.

CREATE TABLE agents (
    tenant           INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id               TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    description      TEXT,
    system_prompt    TEXT    NOT NULL DEFAULT '',
    default_model_id TEXT,
    -- JSON lists of texts.
    tags             TEXT    NOT NULL DEFAULT '[]',
    capabilities     TEXT    NOT NULL DEFAULT '[]',
    status           TEXT    NOT NULL DEFAULT 'active',
    created_ns       INTEGER NOT NULL,
    updated_ns       INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    tenant      INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    -- The user whose session it is; '' is nobody's, and only operators and the agent see it.
    owner       TEXT    NOT NULL DEFAULT '',
    title       TEXT,
    tags        TEXT    NOT NULL DEFAULT '[]',
    model_id    TEXT,
    status      TEXT    NOT NULL DEFAULT 'pending',
    created_ns  INTEGER NOT NULL,
    started_ns  INTEGER,
    finished_ns INTEGER,
    PRIMARY KEY (tenant, id),
    -- An agent goes only after its sessions, because each of them holds a space.
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_agent ON sessions (tenant, agent, id);

-- Of the secret only its hash is kept. What a token was made from takes it along when it goes.
CREATE TABLE tokens (
    tenant     INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    hash       BLOB    NOT NULL,
    id         TEXT    NOT NULL,
    parent     TEXT,
    role       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- NULL is no limit; paths and verbs are JSON.
    owner      TEXT,
    agent      TEXT,
    session    TEXT,
    paths      TEXT,
    verbs      TEXT,
    expires_ns INTEGER,
    label      TEXT    NOT NULL DEFAULT '',
    created_ns INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, parent) REFERENCES tokens (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_of_parent ON tokens (tenant, parent);
CREATE INDEX tokens_of_agent ON tokens (tenant, agent) WHERE agent IS NOT NULL;
CREATE INDEX tokens_of_session ON tokens (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX tokens_expiry ON tokens (tenant, expires_ns) WHERE expires_ns IS NOT NULL;
