//! The relations of PostgreSQL's catalog and of the information schema, with their columns.
//!
//! - Columns are those of PostgreSQL 16, in its order, with its names and types.
//! - Every relation of PostgreSQL exists, so that no query on the catalog fails for a missing one;
//!   relations for features that Tidegate does not have are empty, and listed in `others.txt`, one
//!   per line.
//!
//! A column is written as `name type`. The default of a type with `?` is NULL; that of others is
//! false, 0 or an empty text.

use std::sync::LazyLock;

/// A relation: its schema, its name, its columns.
pub(super) struct Relation {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static str,
}

const fn pg(name: &'static str, columns: &'static str) -> Relation {
    Relation { schema: "pg_catalog", name, columns }
}

const fn information(name: &'static str, columns: &'static str) -> Relation {
    Relation { schema: "information_schema", name, columns }
}

/// The relations that never have rows.
static OTHERS: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let relation = |line: &'static str| {
        let (name, columns) = line.split_once(": ").expect("a name, and columns behind it");
        let (schema, name) = name.split_once('.').expect("a schema, and a name behind it");
        Relation { schema, name, columns }
    };
    include_str!("others.txt").lines().map(relation).collect()
});

/// The OIDs of PostgreSQL's own tables in `pg_class`.
const NUMBERS: [(&str, u32); 64] = [
    ("pg_aggregate", 2_600),
    ("pg_am", 2_601),
    ("pg_amop", 2_602),
    ("pg_amproc", 2_603),
    ("pg_attrdef", 2_604),
    ("pg_attribute", 1_249),
    ("pg_auth_members", 1_261),
    ("pg_authid", 1_260),
    ("pg_cast", 2_605),
    ("pg_class", 1_259),
    ("pg_collation", 3_456),
    ("pg_constraint", 2_606),
    ("pg_conversion", 2_607),
    ("pg_database", 1_262),
    ("pg_db_role_setting", 2_964),
    ("pg_default_acl", 826),
    ("pg_depend", 2_608),
    ("pg_description", 2_609),
    ("pg_enum", 3_501),
    ("pg_event_trigger", 3_466),
    ("pg_extension", 3_079),
    ("pg_foreign_data_wrapper", 2_328),
    ("pg_foreign_server", 1_417),
    ("pg_foreign_table", 3_118),
    ("pg_index", 2_610),
    ("pg_inherits", 2_611),
    ("pg_init_privs", 3_394),
    ("pg_language", 2_612),
    ("pg_largeobject", 2_613),
    ("pg_largeobject_metadata", 2_995),
    ("pg_namespace", 2_615),
    ("pg_opclass", 2_616),
    ("pg_operator", 2_617),
    ("pg_opfamily", 2_753),
    ("pg_parameter_acl", 6_243),
    ("pg_partitioned_table", 3_350),
    ("pg_policy", 3_256),
    ("pg_proc", 1_255),
    ("pg_publication", 6_104),
    ("pg_publication_namespace", 6_237),
    ("pg_publication_rel", 6_106),
    ("pg_range", 3_541),
    ("pg_replication_origin", 6_000),
    ("pg_rewrite", 2_618),
    ("pg_seclabel", 3_596),
    ("pg_sequence", 2_224),
    ("pg_shdepend", 1_214),
    ("pg_shdescription", 2_396),
    ("pg_shseclabel", 3_592),
    ("pg_statistic", 2_619),
    ("pg_statistic_ext", 3_381),
    ("pg_statistic_ext_data", 3_429),
    ("pg_subscription", 6_100),
    ("pg_subscription_rel", 6_102),
    ("pg_tablespace", 1_213),
    ("pg_transform", 3_576),
    ("pg_trigger", 2_620),
    ("pg_ts_config", 3_602),
    ("pg_ts_config_map", 3_603),
    ("pg_ts_dict", 3_600),
    ("pg_ts_parser", 3_601),
    ("pg_ts_template", 3_764),
    ("pg_type", 1_247),
    ("pg_user_mapping", 1_418),
];

/// The OID of a relation of `pg_catalog`; 0 for a view, which has none of its own.
pub(super) fn number(name: &str) -> u32 {
    NUMBERS.iter().find(|(known, _)| *known == name).map_or(0, |(_, number)| *number)
}

/// The relation of `pg_catalog` that has an OID.
pub(super) fn numbered(oid: u32) -> Option<&'static str> {
    NUMBERS.iter().find(|(_, number)| *number == oid).map(|(name, _)| *name)
}

/// All relations.
pub(super) fn all() -> impl Iterator<Item = &'static Relation> {
    RELATIONS.iter().chain(OTHERS.iter())
}

/// A relation of this name; without a schema, one of `pg_catalog`.
pub(super) fn find(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
    let schema = schema.unwrap_or("pg_catalog");
    all().find(|relation| relation.schema == schema && relation.name == name)
}

const RELATIONS: &[Relation] = &[
    pg(
        "pg_aggregate",
        "aggfnoid regproc, aggkind char, aggnumdirectargs int2, aggtransfn regproc, \
         aggfinalfn regproc, aggcombinefn regproc, aggserialfn regproc, aggdeserialfn regproc, \
         aggmtransfn regproc, aggminvtransfn regproc, aggmfinalfn regproc, aggfinalextra bool, \
         aggmfinalextra bool, aggfinalmodify char, aggmfinalmodify char, aggsortop oid, \
         aggtranstype oid, aggtransspace int4, aggmtranstype oid, aggmtransspace int4, \
         agginitval text?, aggminitval text?",
    ),
    pg("pg_am", "oid oid, amname name, amhandler regproc, amtype char"),
    pg("pg_attrdef", "oid oid, adrelid oid, adnum int2, adbin pg_node_tree?"),
    pg(
        "pg_attribute",
        "attrelid oid, attname name, atttypid oid, attlen int2, attnum int2, attcacheoff int4, \
         atttypmod int4, attndims int2, attbyval bool, attalign char, attstorage char, \
         attcompression char, attnotnull bool, atthasdef bool, atthasmissing bool, \
         attidentity char, attgenerated char, attisdropped bool, attislocal bool, \
         attinhcount int2, attstattarget int2, attcollation oid, attacl aclitem[]?, \
         attoptions text[]?, attfdwoptions text[]?, attmissingval text[]?",
    ),
    pg(
        "pg_auth_members",
        "oid oid, roleid oid, member oid, grantor oid, admin_option bool, inherit_option bool, \
         set_option bool",
    ),
    pg(
        "pg_available_extension_versions",
        "name name, version text, installed bool, superuser bool, trusted bool, relocatable \
         bool, schema name, requires text[]?, comment text",
    ),
    pg(
        "pg_available_extensions",
        "name name, default_version text, installed_version text?, comment text?",
    ),
    pg(
        "pg_cast",
        "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, \
                   castmethod char",
    ),
    pg(
        "pg_class",
        "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, \
         relam oid, relfilenode oid, reltablespace oid, relpages int4, reltuples float4, \
         relallvisible int4, reltoastrelid oid, relhasindex bool, relisshared bool, \
         relpersistence char, relkind char, relnatts int2, relchecks int2, relhasrules bool, \
         relhastriggers bool, relhassubclass bool, relrowsecurity bool, \
         relforcerowsecurity bool, relispopulated bool, relreplident char, relispartition bool, \
         relrewrite oid, relfrozenxid xid, relminmxid xid, relacl aclitem[]?, reloptions text[]?, \
         relpartbound pg_node_tree?",
    ),
    pg(
        "pg_collation",
        "oid oid, collname name, collnamespace oid, collowner oid, collprovider char, \
         collisdeterministic bool, collencoding int4, collcollate text?, collctype text?, \
         colliculocale text?, collicurules text?, collversion text?",
    ),
    pg(
        "pg_constraint",
        "oid oid, conname name, connamespace oid, contype char, condeferrable bool, \
         condeferred bool, convalidated bool, conrelid oid, contypid oid, conindid oid, \
         conparentid oid, confrelid oid, confupdtype char, confdeltype char, confmatchtype char, \
         conislocal bool, coninhcount int2, connoinherit bool, conkey int2[]?, confkey int2[]?, \
         conpfeqop oid[]?, conppeqop oid[]?, conffeqop oid[]?, confdelsetcols int2[]?, \
         conexclop oid[]?, conbin pg_node_tree?",
    ),
    pg(
        "pg_conversion",
        "oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, \
         contoencoding int4, conproc regproc, condefault bool",
    ),
    pg(
        "pg_cursors",
        "name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, \
         creation_time timestamptz?",
    ),
    pg(
        "pg_database",
        "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, \
         datistemplate bool, datallowconn bool, datconnlimit int4, datfrozenxid xid, \
         datminmxid xid, dattablespace oid, datcollate text, datctype text, daticulocale text?, \
         daticurules text?, datcollversion text?, datacl aclitem[]?",
    ),
    pg("pg_db_role_setting", "setdatabase oid, setrole oid, setconfig text[]?"),
    pg(
        "pg_default_acl",
        "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl \
         aclitem[]?",
    ),
    pg(
        "pg_depend",
        "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, \
         deptype char",
    ),
    pg("pg_description", "objoid oid, classoid oid, objsubid int4, description text"),
    pg("pg_enum", "oid oid, enumtypid oid, enumsortorder float4, enumlabel name"),
    pg(
        "pg_event_trigger",
        "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled char, \
         evttags text[]?",
    ),
    pg(
        "pg_extension",
        "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, \
         extversion text, extconfig oid[]?, extcondition text[]?",
    ),
    pg(
        "pg_foreign_data_wrapper",
        "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, \
         fdwacl aclitem[]?, fdwoptions text[]?",
    ),
    pg(
        "pg_foreign_server",
        "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text?, srvversion text?, \
         srvacl aclitem[]?, srvoptions text[]?",
    ),
    pg("pg_foreign_table", "ftrelid oid, ftserver oid, ftoptions text[]?"),
    pg("pg_get_keywords", "word text, catcode char, barelabel bool, catdesc text, baredesc text"),
    pg(
        "pg_index",
        "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, \
         indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, \
         indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, \
         indislive bool, indisreplident bool, indkey int2vector, indcollation oidvector, \
         indclass oidvector, indoption int2vector, indexprs pg_node_tree?, \
         indpred pg_node_tree?",
    ),
    pg(
        "pg_indexes",
        "schemaname name, tablename name, indexname name, tablespace name?, indexdef text?",
    ),
    pg("pg_inherits", "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool"),
    pg(
        "pg_language",
        "oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool, \
         lanplcallfoid oid, laninline oid, lanvalidator oid, lanacl aclitem[]?",
    ),
    pg(
        "pg_matviews",
        "schemaname name, matviewname name, matviewowner name, tablespace name?, \
                       hasindexes bool, ispopulated bool, definition text?",
    ),
    pg(
        "pg_locks",
        "locktype text, database oid?, relation oid?, page int4?, tuple int2?, virtualxid text?, \
         transactionid xid?, classid oid?, objid oid?, objsubid int2?, virtualtransaction text, \
         pid int4?, mode text, granted bool, fastpath bool, waitstart timestamptz?",
    ),
    pg("pg_namespace", "oid oid, nspname name, nspowner oid, nspacl aclitem[]?"),
    pg(
        "pg_opclass",
        "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, \
         opcintype oid, opcdefault bool, opckeytype oid",
    ),
    pg("pg_opfamily", "oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid"),
    pg(
        "pg_operator",
        "oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprcanmerge bool, \
         oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, \
         oprcode regproc, oprrest regproc, oprjoin regproc",
    ),
    pg(
        "pg_partitioned_table",
        "partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs int2vector, \
         partclass oidvector, partcollation oidvector, partexprs pg_node_tree?",
    ),
    pg(
        "pg_policies",
        "schemaname name, tablename name, policyname name, permissive text, roles text[]?, cmd \
         text, qual text, with_check text",
    ),
    pg(
        "pg_policy",
        "oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles oid[]?, \
         polqual pg_node_tree?, polwithcheck pg_node_tree?",
    ),
    pg(
        "pg_prepared_statements",
        "name text, statement text, prepare_time timestamptz?, parameter_types text, \
         result_types text, from_sql bool, generic_plans int8, custom_plans int8",
    ),
    pg(
        "pg_proc",
        "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, \
         prorows float4, provariadic oid, prosupport regproc, prokind char, prosecdef bool, \
         proleakproof bool, proisstrict bool, proretset bool, provolatile char, \
         proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, \
         proargtypes oidvector, proallargtypes oid[]?, proargmodes char[]?, proargnames text[]?, \
         proargdefaults pg_node_tree?, protrftypes oid[]?, prosrc text, probin text?, \
         prosqlbody pg_node_tree?, proconfig text[]?, proacl aclitem[]?",
    ),
    pg(
        "pg_publication",
        "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, \
         pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
    ),
    pg("pg_publication_namespace", "oid oid, pnpubid oid, pnnspid oid"),
    pg(
        "pg_publication_rel",
        "oid oid, prpubid oid, prrelid oid, prqual pg_node_tree?, prattrs int2vector",
    ),
    pg(
        "pg_range",
        "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid, \
         rngcanonical regproc, rngsubdiff regproc",
    ),
    pg(
        "pg_rewrite",
        "oid oid, rulename name, ev_class oid, ev_type char, ev_enabled char, is_instead bool, \
         ev_qual pg_node_tree?, ev_action pg_node_tree?",
    ),
    pg(
        "pg_roles",
        "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
         rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text?, \
         rolvaliduntil timestamptz?, rolbypassrls bool, rolconfig text[]?, oid oid",
    ),
    pg("pg_rules", "schemaname name, tablename name, rulename name, definition text"),
    pg(
        "pg_sequence",
        "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, \
         seqcache int8, seqcycle bool",
    ),
    pg(
        "pg_sequences",
        "schemaname name, sequencename name, sequenceowner name, data_type regtype, \
         start_value int8, min_value int8, max_value int8, increment_by int8, cycle bool, \
         cache_size int8, last_value int8?",
    ),
    pg(
        "pg_settings",
        "name text, setting text, unit text?, category text, short_desc text, extra_desc text?, \
         context text, vartype text, source text, min_val text?, max_val text?, enumvals text[]?, \
         boot_val text?, reset_val text?, sourcefile text?, sourceline int4?, \
         pending_restart bool",
    ),
    pg("pg_shdescription", "objoid oid, classoid oid, description text"),
    pg(
        "pg_stat_activity",
        "datid oid, datname name, pid int4, leader_pid int4?, usesysid oid, usename name, \
         application_name text, client_addr text?, client_hostname text?, client_port int4?, \
         backend_start timestamptz?, xact_start timestamptz?, query_start timestamptz?, \
         state_change timestamptz?, wait_event_type text?, wait_event text?, state text?, \
         backend_xid xid?, backend_xmin xid?, query_id int8?, query text, backend_type text?",
    ),
    pg(
        "pg_stat_all_tables",
        "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan \
         int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
         n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
         n_ins_since_vacuum int8, last_vacuum timestamptz?, last_autovacuum timestamptz?, \
         last_analyze timestamptz?, last_autoanalyze timestamptz?, vacuum_count int8, \
         autovacuum_count int8, analyze_count int8, autoanalyze_count int8",
    ),
    pg("pg_stat_gssapi", "pid int4, gss_authenticated bool, principal text?, encrypted bool"),
    pg(
        "pg_stat_ssl",
        "pid int4, ssl bool, version text?, cipher text?, bits int4?, client_dn text?, \
         client_serial numeric?, issuer_dn text?",
    ),
    pg(
        "pg_stat_user_indexes",
        "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_scan \
         int8, idx_tup_read int8, idx_tup_fetch int8",
    ),
    pg(
        "pg_stat_user_tables",
        "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan \
         int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
         n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
         n_ins_since_vacuum int8, last_vacuum timestamptz?, last_autovacuum timestamptz?, \
         last_analyze timestamptz?, last_autoanalyze timestamptz?, vacuum_count int8, \
         autovacuum_count int8, analyze_count int8, autoanalyze_count int8",
    ),
    pg(
        "pg_statistic_ext",
        "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, \
         stxstattarget int4, stxkeys int2vector, stxkind char[]?, stxexprs pg_node_tree?",
    ),
    pg(
        "pg_tables",
        "schemaname name, tablename name, tableowner name, tablespace name?, hasindexes bool, \
         hasrules bool, hastriggers bool, rowsecurity bool",
    ),
    pg(
        "pg_tablespace",
        "oid oid, spcname name, spcowner oid, spcacl aclitem[]?, spcoptions text[]?",
    ),
    pg(
        "pg_trigger",
        "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, \
         tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, \
         tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, \
         tgattr int2vector, tgargs text?, tgqual pg_node_tree?, tgoldtable name?, \
         tgnewtable name?",
    ),
    pg(
        "pg_type",
        "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool, \
         typtype char, typcategory char, typispreferred bool, typisdefined bool, typdelim char, \
         typrelid oid, typsubscript regproc, typelem oid, typarray oid, typinput regproc, \
         typoutput regproc, typreceive regproc, typsend regproc, typmodin regproc, \
         typmodout regproc, typanalyze regproc, typalign char, typstorage char, typnotnull bool, \
         typbasetype oid, typtypmod int4, typndims int4, typcollation oid, \
         typdefaultbin pg_node_tree?, typdefault text?, typacl aclitem[]?",
    ),
    pg(
        "pg_user",
        "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, \
         usebypassrls bool, passwd text?, valuntil timestamptz?, useconfig text[]?",
    ),
    pg("pg_user_mapping", "oid oid, umuser oid, umserver oid, umoptions text[]?"),
    pg("pg_views", "schemaname name, viewname name, viewowner name, definition text?"),
    information(
        "character_sets",
        "character_set_catalog name?, character_set_schema name?, character_set_name name, \
         character_repertoire name, form_of_use name, default_collate_catalog name, \
         default_collate_schema name, default_collate_name name",
    ),
    information(
        "columns",
        "table_catalog name, table_schema name, table_name name, column_name name, \
         ordinal_position int4, column_default text?, is_nullable text, data_type text, \
         character_maximum_length int4?, character_octet_length int4?, numeric_precision int4?, \
         numeric_precision_radix int4?, numeric_scale int4?, datetime_precision int4?, \
         interval_type text?, interval_precision int4?, character_set_catalog name?, \
         character_set_schema name?, character_set_name name?, collation_catalog name?, \
         collation_schema name?, collation_name name?, domain_catalog name?, \
         domain_schema name?, domain_name name?, udt_catalog name, udt_schema name, \
         udt_name name, scope_catalog name?, scope_schema name?, scope_name name?, \
         maximum_cardinality int4?, dtd_identifier name, is_self_referencing text, \
         is_identity text, identity_generation text?, identity_start text?, \
         identity_increment text?, identity_maximum text?, identity_minimum text?, \
         identity_cycle text, is_generated text, generation_expression text?, \
         is_updatable text",
    ),
    information(
        "key_column_usage",
        "constraint_catalog name, constraint_schema name, constraint_name name, \
         table_catalog name, table_schema name, table_name name, column_name name, \
         ordinal_position int4, position_in_unique_constraint int4?",
    ),
    information(
        "referential_constraints",
        "constraint_catalog name, constraint_schema name, constraint_name name, \
         unique_constraint_catalog name?, unique_constraint_schema name?, \
         unique_constraint_name name?, match_option text, update_rule text, delete_rule text",
    ),
    information(
        "schemata",
        "catalog_name name, schema_name name, schema_owner name, \
         default_character_set_catalog name?, default_character_set_schema name?, \
         default_character_set_name name?, sql_path text?",
    ),
    information(
        "table_constraints",
        "constraint_catalog name, constraint_schema name, constraint_name name, \
         table_catalog name, table_schema name, table_name name, constraint_type text, \
         is_deferrable text, initially_deferred text, enforced text, nulls_distinct text?",
    ),
    information(
        "tables",
        "table_catalog name, table_schema name, table_name name, table_type text, \
         self_referencing_column_name name?, reference_generation text?, \
         user_defined_type_catalog name?, user_defined_type_schema name?, \
         user_defined_type_name name?, is_insertable_into text, is_typed text, \
         commit_action text?",
    ),
    information(
        "views",
        "table_catalog name, table_schema name, table_name name, view_definition text?, \
         check_option text, is_updatable text, is_insertable_into text, \
         is_trigger_updatable text, is_trigger_deletable text, is_trigger_insertable_into text",
    ),
];
