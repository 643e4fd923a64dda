-- What is the agent's: $1 is how its comments begin, $2 how the names of its unfinished databases begin.
WITH roles AS (
    SELECT r.*, substr(c.description, length($1) + 1) AS name
    FROM pg_authid r JOIN pg_shdescription c ON c.objoid = r.oid AND c.classoid = 'pg_authid'::regclass
    WHERE starts_with(c.description, $1)
), databases AS (
    SELECT d.oid, d.datname, d.datdba, d.datacl,
        CASE WHEN starts_with(d.datname, $2) THEN substr(d.datname, length($2) + 1)
        ELSE substr(c.description, length($1) + 1) END AS name
    FROM pg_database d LEFT JOIN pg_shdescription c ON c.objoid = d.oid AND c.classoid = 'pg_database'::regclass
    WHERE starts_with(c.description, $1) OR starts_with(d.datname, $2)
)
SELECT 'role', name, '', concat_ws(' ',
    CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN NOT rolinherit THEN 'NOINHERIT' END,
    CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END,
    CASE WHEN rolcanlogin THEN 'LOGIN' END, CASE WHEN rolreplication THEN 'REPLICATION' END,
    CASE WHEN rolbypassrls THEN 'BYPASSRLS' END, 'CONNECTION LIMIT ' || rolconnlimit,
    'VALID UNTIL ' || quote_literal(nullif(rolvaliduntil, 'infinity'))
), 'PASSWORD ' || coalesce(quote_literal(rolpassword), 'NULL'), CASE WHEN rolname <> name THEN rolname::text ELSE '' END
FROM roles
UNION ALL
SELECT 'database', d.name, '', coalesce(r.name, pg_get_userbyid(d.datdba)) || CASE WHEN
    3 > (SELECT count(*) FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a WHERE a.grantee = d.datdba)
    THEN ' without its privileges' ELSE '' END, '', CASE WHEN d.datname <> d.name THEN d.datname::text ELSE '' END
FROM databases d LEFT JOIN roles r ON r.oid = d.datdba
UNION ALL
SELECT 'membership', coalesce(r.name, g.rolname), m.name, CASE WHEN a.admin_option THEN 'ADMIN OPTION' ELSE '' END, '', ''
FROM pg_auth_members a JOIN roles m ON m.oid = member JOIN pg_authid g ON g.oid = roleid LEFT JOIN roles r ON r.oid = roleid
UNION ALL
SELECT 'grant', d.name, r.name, string_agg(a.privilege_type ||
    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END, ', ' ORDER BY a.privilege_type), '', ''
FROM databases d CROSS JOIN aclexplode(d.datacl) a JOIN roles r ON r.oid = a.grantee
WHERE a.grantor = d.datdba AND a.grantee <> d.datdba
GROUP BY d.oid, d.name, r.oid, r.name
