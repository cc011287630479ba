//! Values of each type as they are sent, in the text format and in the binary one.

use super::conversation::converse;

#[test]
fn truth_values_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## true::BOOLEAN
        > Query SELECT true::BOOLEAN AS v
        < columns v:16
        < row t
        < done SELECT 1
        < ready I
        > Parse - [] SELECT true::BOOLEAN AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:16:b
        < row \x01
        < done SELECT 1
        < ready I
        ## NULL::BOOLEAN
        > Query SELECT NULL::BOOLEAN AS v
        < columns v:16
        < row NULL
        < done SELECT 1
        < ready I
        > Parse - [] SELECT NULL::BOOLEAN AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:16:b
        < row NULL
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn integers_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## (-128)::TINYINT
        > Query SELECT (-128)::TINYINT AS v
        < columns v:21
        < row -128
        < done SELECT 1
        < ready I
        > Parse - [] SELECT (-128)::TINYINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:21:b
        < row \xff\x80
        < done SELECT 1
        < ready I
        ## (-32768)::SMALLINT
        > Query SELECT (-32768)::SMALLINT AS v
        < columns v:21
        < row -32768
        < done SELECT 1
        < ready I
        > Parse - [] SELECT (-32768)::SMALLINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:21:b
        < row \x80\x00
        < done SELECT 1
        < ready I
        ## (-2147483648)::INT
        > Query SELECT (-2147483648)::INT AS v
        < columns v:23
        < row -2147483648
        < done SELECT 1
        < ready I
        > Parse - [] SELECT (-2147483648)::INT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:23:b
        < row \x80\x00\x00\x00
        < done SELECT 1
        < ready I
        ## (-9223372036854775808)::BIGINT
        > Query SELECT (-9223372036854775808)::BIGINT AS v
        < columns v:20
        < row -9223372036854775808
        < done SELECT 1
        < ready I
        > Parse - [] SELECT (-9223372036854775808)::BIGINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:20:b
        < row \x80\x00\x00\x00\x00\x00\x00\x00
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn unsigned_integers_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## 255::UTINYINT
        > Query SELECT 255::UTINYINT AS v
        < columns v:21
        < row 255
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 255::UTINYINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:21:b
        < row \x00\xff
        < done SELECT 1
        < ready I
        ## 65535::USMALLINT
        > Query SELECT 65535::USMALLINT AS v
        < columns v:23
        < row 65535
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 65535::USMALLINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:23:b
        < row \x00\x00\xff\xff
        < done SELECT 1
        < ready I
        ## 4294967295::UINT
        > Query SELECT 4294967295::UINT AS v
        < columns v:20
        < row 4294967295
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 4294967295::UINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:20:b
        < row \x00\x00\x00\x00\xff\xff\xff\xff
        < done SELECT 1
        < ready I
        ## 18446744073709551615::UBIGINT
        > Query SELECT 18446744073709551615::UBIGINT AS v
        < columns v:1700~1310724
        < row 18446744073709551615
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 18446744073709551615::UBIGINT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1700~1310724:b
        < row \x00\x05\x00\x04\x00\x00\x00\x00\x074\x1aX\x02\xe1\x03\xbb\x06O
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn floats_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## 1.5::FLOAT
        > Query SELECT 1.5::FLOAT AS v
        < columns v:700
        < row 1.5
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 1.5::FLOAT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:700:b
        < row ?\xc0\x00\x00
        < done SELECT 1
        < ready I
        ## '-Infinity'::FLOAT
        > Query SELECT '-Infinity'::FLOAT AS v
        < columns v:700
        < row -Infinity
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '-Infinity'::FLOAT AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:700:b
        < row \xff\x80\x00\x00
        < done SELECT 1
        < ready I
        ## -0.0::DOUBLE
        > Query SELECT -0.0::DOUBLE AS v
        < columns v:701
        < row -0
        < done SELECT 1
        < ready I
        > Parse - [] SELECT -0.0::DOUBLE AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:701:b
        < row \x80\x00\x00\x00\x00\x00\x00\x00
        < done SELECT 1
        < ready I
        ## 'NaN'::DOUBLE
        > Query SELECT 'NaN'::DOUBLE AS v
        < columns v:701
        < row NaN
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 'NaN'::DOUBLE AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:701:b
        < row \x7f\xf8\x00\x00\x00\x00\x00\x00
        < done SELECT 1
        < ready I
        ## 1e300::DOUBLE
        > Query SELECT 1e300::DOUBLE AS v
        < columns v:701
        < row 1e+300
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 1e300::DOUBLE AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:701:b
        < row ~7\xe4<\x88\x00u\x9c
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn decimals_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## 12.500::DECIMAL(10,3)
        > Query SELECT 12.500::DECIMAL(10,3) AS v
        < columns v:1700~655367
        < row 12.500
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 12.500::DECIMAL(10,3) AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1700~655367:b
        < row \x00\x02\x00\x00\x00\x00\x00\x03\x00\x0c\x13\x88
        < done SELECT 1
        < ready I
        ## (-0.001)::DECIMAL(10,3)
        > Query SELECT (-0.001)::DECIMAL(10,3) AS v
        < columns v:1700~655367
        < row -0.001
        < done SELECT 1
        < ready I
        > Parse - [] SELECT (-0.001)::DECIMAL(10,3) AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1700~655367:b
        < row \x00\x01\xff\xff@\x00\x00\x03\x00\n
        < done SELECT 1
        < ready I
        ## 10000::DECIMAL(10,0)
        > Query SELECT 10000::DECIMAL(10,0) AS v
        < columns v:1700~655364
        < row 10000
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 10000::DECIMAL(10,0) AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1700~655364:b
        < row \x00\x01\x00\x01\x00\x00\x00\x00\x00\x01
        < done SELECT 1
        < ready I
        ## 0::DECIMAL(5,2)
        > Query SELECT 0::DECIMAL(5,2) AS v
        < columns v:1700~327686
        < row 0.00
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 0::DECIMAL(5,2) AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1700~327686:b
        < row \x00\x00\x00\x00\x00\x00\x00\x02
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn times_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## '2025-03-01T00:00:00.5'::TIMESTAMP
        > Query SELECT '2025-03-01T00:00:00.5'::TIMESTAMP AS v
        < columns v:1114
        < row 2025-03-01 00:00:00.5
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '2025-03-01T00:00:00.5'::TIMESTAMP AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1114:b
        < row \x00\x02\xd2;_\x7fA
        < done SELECT 1
        < ready I
        ## '1969-12-31T23:59:59.999999999'::TIMESTAMP_NS
        > Query SELECT '1969-12-31T23:59:59.999999999'::TIMESTAMP_NS AS v
        < columns v:1114
        < row 1969-12-31 23:59:59.999999999
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '1969-12-31T23:59:59.999999999'::TIMESTAMP_NS AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1114:b
        < row \xff\xfc\xa2\xfe\xc4\xc8\x1f\xff
        < done SELECT 1
        < ready I
        ## '2025-03-01'::DATE
        > Query SELECT '2025-03-01'::DATE AS v
        < columns v:1082
        < row 2025-03-01
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '2025-03-01'::DATE AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1082:b
        < row \x00\x00#\xe7
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn texts_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## 'a"b'::VARCHAR
        > Query SELECT 'a"b'::VARCHAR AS v
        < columns v:1043
        < row a"b
        < done SELECT 1
        < ready I
        > Parse - [] SELECT 'a"b'::VARCHAR AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1043:b
        < row a"b
        < done SELECT 1
        < ready I
        ## ''::VARCHAR
        > Query SELECT ''::VARCHAR AS v
        < columns v:1043
        < row
        < done SELECT 1
        < ready I
        > Parse - [] SELECT ''::VARCHAR AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1043:b
        < row
        < done SELECT 1
        < ready I
        ## '192.168.0.1'::IPV4
        > Query SELECT '192.168.0.1'::IPV4 AS v
        < columns v:1043
        < row 192.168.0.1
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '192.168.0.1'::IPV4 AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1043:b
        < row 192.168.0.1
        < done SELECT 1
        < ready I
        ## '11111111-2222-3333-4444-555555555555'::UUID
        > Query SELECT '11111111-2222-3333-4444-555555555555'::UUID AS v
        < columns v:2950
        < row 11111111-2222-3333-4444-555555555555
        < done SELECT 1
        < ready I
        > Parse - [] SELECT '11111111-2222-3333-4444-555555555555'::UUID AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:2950:b
        < row \x11\x11\x11\x11""33DDUUUUUU
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn intervals_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## INTERVAL '1 day 2 hours'
        > Query SELECT INTERVAL '1 day 2 hours' AS v
        < columns v:1186
        < row 1 day 02:00:00
        < done SELECT 1
        < ready I
        > Parse - [] SELECT INTERVAL '1 day 2 hours' AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1186:b
        < row \x00\x00\x00\x01\xad'H\x00\x00\x00\x00\x01\x00\x00\x00\x00
        < done SELECT 1
        < ready I
        ## INTERVAL '-1 month'
        > Query SELECT INTERVAL '-1 month' AS v
        < columns v:1186
        < row -1 mons
        < done SELECT 1
        < ready I
        > Parse - [] SELECT INTERVAL '-1 month' AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1186:b
        < row \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn lists_are_sent_in_both_formats() {
    converse(
        &[],
        r#"
        ## ARRAY[1, NULL, 3]
        > Query SELECT ARRAY[1, NULL, 3] AS v
        < columns v:1016
        < row {1,NULL,3}
        < done SELECT 1
        < ready I
        > Parse - [] SELECT ARRAY[1, NULL, 3] AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1016:b
        < row \x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00\x01...
        < done SELECT 1
        < ready I
        ## ARRAY['a', 'b,c']
        > Query SELECT ARRAY['a', 'b,c'] AS v
        < columns v:1009
        < row {a,"b,c"}
        < done SELECT 1
        < ready I
        > Parse - [] SELECT ARRAY['a', 'b,c'] AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1009:b
        < row \x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x19\x00\x00\x00\x02\x00\x00\x00\x01...
        < done SELECT 1
        < ready I
        ## ARRAY[ARRAY[1, 2], ARRAY[3, 4]]
        > Query SELECT ARRAY[ARRAY[1, 2], ARRAY[3, 4]] AS v
        < columns v:1016
        < row {{1,2},{3,4}}
        < done SELECT 1
        < ready I
        > Parse - [] SELECT ARRAY[ARRAY[1, 2], ARRAY[3, 4]] AS v
        > Bind - - [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns v:1016:b
        < row \x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\x02\x00\x00\x00\x01...
        < done SELECT 1
        < ready I
        "#,
    );
}
