//! PostgreSQL's types: their OIDs, their names, and the type of each of our column types.
//!
//! The OIDs are those of the wire protocol too; `server::pg::types` has them for values.

use tidegate_model::ColumnType;

/// A type of `pg_type`.
pub(super) struct PgType {
    pub(super) oid: u32,
    pub(super) name: &'static str,
    /// The name as `format_type` writes it.
    pub(super) sql: &'static str,
    pub(super) size: i16,
    pub(super) category: char,
    /// The OID of its array type; 0 if there is none.
    pub(super) array: u32,
}

const fn ty(
    oid: u32,
    array: u32,
    name: &'static str,
    sql: &'static str,
    size: i16,
    category: char,
) -> PgType {
    PgType { oid, name, sql, size, category, array }
}

/// The types of values, and of the catalog's columns.
pub(super) const TYPES: &[PgType] = &[
    ty(16, 1000, "bool", "boolean", 1, 'B'),
    ty(17, 1001, "bytea", "bytea", -1, 'U'),
    ty(18, 1002, "char", "\"char\"", 1, 'Z'),
    ty(19, 1003, "name", "name", 64, 'S'),
    ty(20, 1016, "int8", "bigint", 8, 'N'),
    ty(21, 1005, "int2", "smallint", 2, 'N'),
    ty(22, 1006, "int2vector", "int2vector", -1, 'A'),
    ty(23, 1007, "int4", "integer", 4, 'N'),
    ty(24, 1008, "regproc", "regproc", 4, 'N'),
    ty(25, 1009, "text", "text", -1, 'S'),
    ty(26, 1028, "oid", "oid", 4, 'N'),
    ty(28, 1011, "xid", "xid", 4, 'U'),
    ty(30, 1013, "oidvector", "oidvector", -1, 'A'),
    ty(114, 199, "json", "json", -1, 'U'),
    ty(194, 0, "pg_node_tree", "pg_node_tree", -1, 'Z'),
    ty(700, 1021, "float4", "real", 4, 'N'),
    ty(701, 1022, "float8", "double precision", 8, 'N'),
    ty(705, 0, "unknown", "unknown", -2, 'X'),
    ty(869, 1041, "inet", "inet", -1, 'I'),
    ty(1033, 1034, "aclitem", "aclitem", 16, 'U'),
    ty(1042, 1014, "bpchar", "character", -1, 'S'),
    ty(1043, 1015, "varchar", "character varying", -1, 'S'),
    ty(1082, 1182, "date", "date", 4, 'D'),
    ty(1083, 1183, "time", "time without time zone", 8, 'D'),
    ty(1114, 1115, "timestamp", "timestamp without time zone", 8, 'D'),
    ty(1184, 1185, "timestamptz", "timestamp with time zone", 8, 'D'),
    ty(1186, 1187, "interval", "interval", 16, 'T'),
    ty(1700, 1231, "numeric", "numeric", -1, 'N'),
    ty(2205, 2210, "regclass", "regclass", 4, 'N'),
    ty(2206, 2211, "regtype", "regtype", 4, 'N'),
    ty(2950, 2951, "uuid", "uuid", 16, 'U'),
];

/// The OIDs in PostgreSQL of the functions that read and write a type's text and its binary form:
/// clients recognize types by them.
pub(super) struct TypeFunctions {
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) receive: u32,
    pub(super) send: u32,
}

const fn io(input: u32, output: u32, receive: u32, send: u32) -> TypeFunctions {
    TypeFunctions { input, output, receive, send }
}

/// The functions of arrays.
pub(super) const ARRAY_FUNCTIONS: TypeFunctions = io(750, 751, 2400, 2401);

/// The functions of tables' row types.
pub(super) const ROW_FUNCTIONS: TypeFunctions = io(2290, 2291, 2402, 2403);

/// The functions of types by the types' OIDs, in the order of `TYPES`.
pub(super) const TYPE_FUNCTIONS: [(u32, TypeFunctions); 31] = [
    (16, io(1242, 1243, 2436, 2437)),
    (17, io(1244, 31, 2412, 2413)),
    (18, io(1245, 33, 2434, 2435)),
    (19, io(34, 35, 2422, 2423)),
    (20, io(460, 461, 2408, 2409)),
    (21, io(38, 39, 2404, 2405)),
    (22, io(40, 41, 2410, 2411)),
    (23, io(42, 43, 2406, 2407)),
    (24, io(44, 45, 2444, 2445)),
    (25, io(46, 47, 2414, 2415)),
    (26, io(1798, 1799, 2418, 2419)),
    (28, io(50, 51, 2440, 2441)),
    (30, io(54, 55, 2420, 2421)),
    (114, io(321, 322, 323, 324)),
    (194, io(195, 196, 197, 198)),
    (700, io(200, 201, 2424, 2425)),
    (701, io(214, 215, 2426, 2427)),
    (705, io(109, 110, 2416, 2417)),
    (869, io(910, 911, 2496, 2497)),
    (1033, io(1031, 1032, 0, 0)),
    (1042, io(1044, 1045, 2430, 2431)),
    (1043, io(1046, 1047, 2432, 2433)),
    (1082, io(1084, 1085, 2468, 2469)),
    (1083, io(1143, 1144, 2470, 2471)),
    (1114, io(1312, 1313, 2474, 2475)),
    (1184, io(1150, 1151, 2476, 2477)),
    (1186, io(1160, 1161, 2478, 2479)),
    (1700, io(1701, 1702, 2460, 2461)),
    (2205, io(2218, 2219, 2452, 2453)),
    (2206, io(2220, 2221, 2454, 2455)),
    (2950, io(2952, 2953, 2961, 2962)),
];

/// The functions of a type.
pub(super) fn functions_of(ty: &PgType) -> &'static TypeFunctions {
    let found = TYPE_FUNCTIONS.iter().find(|(oid, _)| *oid == ty.oid);
    &found.expect("every type has functions").1
}

/// All functions of types: their OIDs and names.
pub(super) fn all_functions() -> impl Iterator<Item = (u32, String)> {
    let named = |prefix: String, functions: &'static TypeFunctions| {
        let TypeFunctions { input, output, receive, send } = *functions;
        [(input, "in"), (output, "out"), (receive, "recv"), (send, "send")]
            .map(|(oid, suffix)| (oid, format!("{prefix}{suffix}")))
    };
    let of_type = move |ty: &PgType| {
        // PostgreSQL's names: the older ones have no underscore.
        const UNDERSCORED: [u32; 10] = [114, 194, 869, 1082, 1083, 1114, 1184, 1186, 1700, 2950];
        let underscore = if UNDERSCORED.contains(&ty.oid) { "_" } else { "" };
        named(format!("{}{underscore}", ty.name), functions_of(ty))
    };
    let of_arrays = named("array_".to_owned(), &ARRAY_FUNCTIONS);
    let of_rows = named("record_".to_owned(), &ROW_FUNCTIONS);
    TYPES.iter().flat_map(of_type).chain(of_arrays).chain(of_rows).filter(|(oid, _)| *oid != 0)
}

/// The name of a type's function; `-` for OID 0, and the OID itself if it is unknown.
pub(super) fn function_name(oid: u32) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let found = all_functions().find(|(function, _)| *function == oid);
    found.map_or_else(|| oid.to_string(), |(_, name)| name)
}

/// The type of a column of ours, and its type modifier.
pub(super) fn of_column(ty: ColumnType) -> (&'static PgType, i32) {
    let (oid, modifier) = match ty {
        ColumnType::Boolean => (16, -1),
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::UInt8 => (21, -1),
        ColumnType::Int32 | ColumnType::UInt16 => (23, -1),
        ColumnType::Int64 | ColumnType::UInt32 => (20, -1),
        ColumnType::UInt64 => (1700, (20 << 16) + 4),
        ColumnType::Float32 => (700, -1),
        ColumnType::Float64 => (701, -1),
        ColumnType::Decimal { precision, scale } => {
            (1700, ((i32::from(precision) << 16) | i32::from(scale)) + 4)
        }
        ColumnType::Timestamp(_) => (1114, -1),
        ColumnType::Date => (1082, -1),
        ColumnType::Symbol | ColumnType::Varchar | ColumnType::Ipv4 => (1043, -1),
        ColumnType::Binary => (17, -1),
        ColumnType::Uuid => (2950, -1),
    };
    (by_oid(oid).expect("all of these are in the list"), modifier)
}

pub(super) fn by_oid(oid: u32) -> Option<&'static PgType> {
    TYPES.iter().find(|ty| ty.oid == oid)
}

/// A type by its name, or by its spelling in SQL.
pub(super) fn by_name(name: &str) -> Option<&'static PgType> {
    let name = name.trim().trim_start_matches("pg_catalog.").trim_matches('"').to_lowercase();
    TYPES.iter().find(|ty| ty.name == name || ty.sql.trim_matches('"') == name)
}

/// The spelling of a type in SQL: `numeric(10,2)`.
pub(super) fn format_type(oid: u32, modifier: Option<i32>) -> String {
    if let Some(element) = TYPES.iter().find(|ty| ty.array != 0 && ty.array == oid) {
        return format!("{}[]", element.sql);
    }
    match (by_oid(oid), modifier) {
        (None, _) if oid == 0 => "-".to_owned(),
        (None, _) => "???".to_owned(),
        (Some(ty), Some(modifier @ 4..)) if ty.name == "numeric" => {
            let digits = modifier - 4;
            format!("numeric({},{})", digits >> 16, digits & 0xffff)
        }
        (Some(ty), Some(modifier @ 4..)) if matches!(ty.name, "varchar" | "bpchar") => {
            format!("{}({})", ty.sql, modifier - 4)
        }
        (Some(ty), _) => ty.sql.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_types_are_called_as_in_postgresql() {
        let names = [2406, 2414, 2474, 2400, 2961, 0, 7].map(function_name);
        assert_eq!(names.join(" "), "int4recv textrecv timestamp_recv array_recv uuid_recv - 7");
        for ty in TYPES {
            assert!(0 < functions_of(ty).input, "{}", ty.name);
        }
    }

    #[test]
    fn types_are_written_as_postgresql_does() {
        assert_eq!(format_type(1700, Some(((10 << 16) | 3) + 4)), "numeric(10,3)");
        assert_eq!(format_type(1022, None), "double precision[]");
        assert_eq!(format_type(1114, Some(-1)), "timestamp without time zone");
        assert_eq!(format_type(1043, Some(24)), "character varying(20)");
        assert_eq!((format_type(0, None).as_str(), format_type(1, None).as_str()), ("-", "???"));
        assert_eq!(by_name("pg_catalog.int4").map(|ty| ty.oid), Some(23));
        assert_eq!(by_name("Timestamp Without Time Zone").map(|ty| ty.oid), Some(1114));
        for ty in ColumnType::ALL {
            assert!(0 < of_column(ty).0.array);
        }
    }
}
