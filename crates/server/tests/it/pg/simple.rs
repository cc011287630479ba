//! The simple protocol: statements of one message, errors, notices, and changes of settings.

use super::conversation::converse;

#[test]
fn a_message_has_any_number_of_statements() {
    converse(
        &[],
        r#"
        ## none
        > Query
        < empty
        < ready I
        > Query ;
        < empty
        < ready I
        > Query  ; -- a comment\n;
        < empty
        < ready I
        ## one
        > Query SELECT 1 AS a, 'x' AS b, NULL AS c
        < columns a:20 b:1043 c:25
        < row 1|x|NULL
        < done SELECT 1
        < ready I
        > Query SELECT x FROM long_sequence(3)
        < columns x:20
        < row 1
        < row 2
        < row 3
        < done SELECT 3
        < ready I
        > Query SELECT x FROM long_sequence(0)
        < columns x:20
        < done SELECT 0
        < ready I
        ## several
        > Query SELECT 1; SELECT 'a;b' AS s; /* ; */ SELECT 3;
        < columns 1:20
        < row 1
        < done SELECT 1
        < columns s:1043
        < row a;b
        < done SELECT 1
        < columns 3:20
        < row 3
        < done SELECT 1
        < ready I
        ## the error in the middle ends the message
        > Query SELECT 1; SELECT 1/0; SELECT 3
        < columns 1:20
        < row 1
        < done SELECT 1
        < columns 1 / 0:20
        < error 22012 division by zero [at 19]
        < ready I
        > Query SELECT 4
        < columns 4:20
        < row 4
        < done SELECT 1
        < ready I
        ## a statement that is no statement
        > Query SELECT 1; SELEC 2
        < columns 1:20
        < row 1
        < done SELECT 1
        < error 42601 expected SELECT, VALUES, or a subquery in the query body, found `SELEC` [...
        < ready I
        ## text that is not UTF-8
        > Query SELECT '\xff'
        < error 22021 invalid byte sequence for encoding "UTF8"
        < ready I
        "#,
    );
}

#[test]
fn statements_that_change_something_say_how_many_rows() {
    converse(
        &[],
        r#"
        ## a life of a table
        > Query CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY
        < done CREATE TABLE
        < ready I
        > Query CREATE TABLE t (n INT)
        < error 42P07 table `t` exists already
        < ready I
        > Query CREATE TABLE IF NOT EXISTS t (n INT)
        < warning 01000 table `t` exists already
        < done CREATE TABLE
        < ready I
        > Query INSERT INTO t VALUES (1, 1), (2, 2)
        < done INSERT 0 2
        < ready I
        > Query UPDATE t SET n = n + 1 WHERE n = 2
        < done UPDATE 1
        < ready I
        > Query UPDATE t SET n = 5 RETURNING n
        < columns n:23
        < row 5
        < row 5
        < done UPDATE 2
        < ready I
        > Query DELETE FROM t WHERE n = 7
        < done DELETE 0
        < ready I
        > Query SELECT n FROM t
        < columns n:23
        < row 5
        < row 5
        < done SELECT 2
        < ready I
        > Query ALTER TABLE t ADD COLUMN m INT
        < done ALTER TABLE
        < ready I
        > Query TRUNCATE TABLE t
        < done TRUNCATE TABLE
        < ready I
        > Query DROP TABLE t
        < done DROP TABLE
        < ready I
        > Query DROP TABLE IF EXISTS t
        < warning 01000 table `t` does not exist
        < done DROP TABLE
        < ready I
        > Query DROP TABLE t
        < error 42P01 table `t` does not exist [at 12]
        < ready I
        > Query CREATE TABLE c AS SELECT x FROM long_sequence(4)
        < done CREATE TABLE
        < ready I
        > Query INSERT INTO c SELECT x FROM long_sequence(2)
        < done INSERT 0 2
        < ready I
        > Query SELECT count(*) FROM c
        < columns count:20
        < row 6
        < done SELECT 1
        < ready I
        > Query CREATE VIEW v AS SELECT x FROM c
        < done CREATE VIEW
        < ready I
        > Query SELECT max(x) FROM v
        < columns max:20
        < row 4
        < done SELECT 1
        < ready I
        > Query DROP VIEW v
        < done DROP VIEW
        < ready I
        "#,
    );
}

#[test]
fn errors_have_a_code_and_a_place() {
    converse(
        &[],
        r#"
        ## of names
        > Query CREATE TABLE t (ts TIMESTAMP, number INT) TIMESTAMP(ts)
        < done CREATE TABLE
        < ready I
        > Query SELECT numbr FROM t
        < error 42703 column `numbr` does not exist, is `number` meant? [perhaps `number` was m...
        < ready I
        > Query SELECT * FROM tt
        < error 42P01 table `tt` does not exist [at 15]
        < ready I
        > Query SELECT 1 FROM t a, t b WHERE number = 1
        < error 42702 column `number` could be one of several columns [at 30]
        < ready I
        > Query SELECT 1; SELECT * FROM missing
        < columns 1:20
        < row 1
        < done SELECT 1
        < error 42P01 table `missing` does not exist [at 25]
        < ready I
        > Query SELECT '\xc3\xa4', nope FROM t
        < error 42703 column `nope` does not exist [at 13]
        < ready I
        ## of values
        > Query SELECT 'x'::INT
        < error 22P02 'x' is not a valid INT: expected a number [at 8]
        < ready I
        > Query SELECT 1/0
        < columns 1 / 0:20
        < error 22012 division by zero [at 9]
        < ready I
        > Query SELECT 300::TINYINT
        < error 22003 '300' is not a valid TINYINT: out of range [at 8]
        < ready I
        > Query SELECT '2025-13-01'::TIMESTAMP
        < error 22008 '2025-13-01' is not a valid TIMESTAMP: there is no such date or time [at 8]
        < ready I
        > Query SELECT 'x'::UUID
        < error 22P02 'x' is not a valid UUID: expected a UUID like 123e4567-e89b-12d3-a456-426...
        < ready I
        ## of grammar
        > Query SELECT (1
        < error 42601 expected ), found the end [at 10]
        < ready I
        > Query SELECT 'open
        < error 42601 this ' is never closed [at 8]
        < ready I
        > Query FROM
        < error 42601 expected identifier, found the end [at 5]
        < ready I
        > Query SELECT 1 1
        < error 42601 expected the end of the query, found `1` [at 10]
        < ready I
        "#,
    );
}

#[test]
fn changed_settings_are_reported() {
    converse(
        &[],
        r#"
        ## each that clients know
        > Query SET TimeZone = 'Europe/Berlin'
        < error 22023 TimeZone cannot be 'Europe/Berlin': times are read and shown in UTC, writ...
        < ready I
        > Query SET application_name TO 'it'
        < setting application_name=it
        < done SET
        < ready I
        > Query SET DateStyle = 'ISO, DMY'
        < done SET
        < ready I
        > Query SET IntervalStyle = 'iso_8601'
        < setting IntervalStyle=iso_8601
        < done SET
        < ready I
        > Query SET statement_timeout = '5s'
        < done SET
        < ready I
        > Query SHOW statement_timeout
        < columns statement_timeout:1043
        < row 5s
        < done SHOW
        < ready I
        > Query RESET TimeZone
        < done SET
        < ready I
        > Query SET nonsense = 1
        < error 42704 there is no setting `nonsense` [at 5]
        < ready I
        > Query SET client_encoding = 'LATIN1'
        < error 22023 client_encoding cannot be 'LATIN1': it takes UTF8 [at 5]
        < ready I
        > Query SET client_encoding = 'UTF8'
        < done SET
        < ready I
        > Query RESET ALL
        < setting IntervalStyle=postgres
        < setting application_name=
        < done SET
        < ready I
        > Query SHOW server_version
        < columns server_version:1043
        < row 16.0
        < done SHOW
        < ready I
        ## within a function
        > Query SELECT set_config('application_name', 'mine', false)
        < columns set_config:1043
        < row mine
        < done SELECT 1
        < ready I
        > Query SHOW application_name
        < columns application_name:1043
        < row mine
        < done SHOW
        < ready I
        "#,
    );
}

#[test]
fn discard_sequences_forgets_given_numbers() {
    converse(
        &[],
        r#"
        ## lastval
        > Query CREATE TABLE given (id BIGSERIAL, v INT)
        < done CREATE TABLE
        < ready I
        > Query SELECT nextval('given_id_seq')
        < columns nextval:20
        < row 1
        < done SELECT 1
        < ready I
        > Query DISCARD SEQUENCES
        < done DISCARD SEQUENCES
        < ready I
        > Query SELECT lastval()
        < columns lastval:20
        < error 55000 lastval is not known yet in this session...
        < ready I
        > Query DISCARD PLAN
        < error 42601 expected ALL, PLANS, SEQUENCES or TEMP, found `PLAN` [at 9]
        < ready I
        "#,
    );
}

// DISCARD TEMP dropped the tables of the time before BEGIN too, so that ROLLBACK could not bring
// them back.
#[test]
fn rollback_undoes_discard_temp() {
    converse(
        &[],
        r#"
        ## rolled back, and committed
        > Query CREATE TEMP TABLE tt (v INT)
        < done CREATE TABLE
        < ready I
        > Query INSERT INTO tt VALUES (1)
        < done INSERT 0 1
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DISCARD TEMP
        < done DISCARD TEMP
        < ready T
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query SELECT v FROM tt
        < columns v:23
        < row 1
        < done SELECT 1
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DISCARD TEMP
        < done DISCARD TEMP
        < ready T
        > Query COMMIT
        < done COMMIT
        < ready I
        > Query CREATE TEMP TABLE tt (v INT)
        < done CREATE TABLE
        < ready I
        "#,
    );
}

#[test]
fn statements_without_effect_are_accepted() {
    converse(
        &[],
        r#"
        ## what clients send
        > Query DISCARD ALL
        < done DISCARD ALL
        < ready I
        > Query DISCARD TEMP
        < done DISCARD TEMP
        < ready I
        > Query DISCARD TEMPORARY
        < done DISCARD TEMP
        < ready I
        > Query DISCARD PLANS
        < done DISCARD PLANS
        < ready I
        > Query DISCARD SEQUENCES
        < done DISCARD SEQUENCES
        < ready I
        > Query DEALLOCATE ALL
        < done DEALLOCATE ALL
        < ready I
        > Query CLOSE ALL
        < done CLOSE CURSOR ALL
        < ready I
        > Query UNLISTEN *
        < done UNLISTEN
        < ready I
        > Query SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
        < done SET
        < ready I
        > Query LOCK TABLE t
        < error 0A000 LOCK TABLE is not supported yet
        < ready I
        > Query LISTEN x
        < error 0A000 LISTEN is not supported yet
        < ready I
        > Query VACUUM
        < warning 01000 VACUUM has no effect: maintenance goes on in the background
        < done VACUUM
        < ready I
        > Query ANALYZE
        < warning 01000 ANALYZE has no effect: maintenance goes on in the background
        < done ANALYZE
        < ready I
        "#,
    );
}

#[test]
fn prepared_statements_of_sql_have_values() {
    converse(
        &[],
        r#"
        ## prepare, execute, deallocate
        > Query PREPARE p (INT, TEXT) AS SELECT $1 + 1 AS n, $2 AS t
        < done PREPARE
        < ready I
        > Query EXECUTE p (41, 'x')
        < columns n:20 t:1043
        < row 42|x
        < done SELECT 1
        < ready I
        > Query EXECUTE p (41)
        < error 42601 wrong number of parameters for prepared statement "p": expected 2, got 1
        < ready I
        > Query EXECUTE p (1, 'x', 2)
        < error 42601 wrong number of parameters for prepared statement "p": expected 2, got 3
        < ready I
        > Query EXECUTE p ('a', 'x')
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Query EXECUTE p (2147483648, 'x')
        < error 22003 parameter 1 is out of the range of its type
        < ready I
        > Query EXECUTE p (true, 'x')
        < error 42804 the constant for parameter 1 is not of its type
        < ready I
        > Query EXECUTE p ('41', true)
        < columns n:20 t:1043
        < row 42|true
        < done SELECT 1
        < ready I
        > Query EXECUTE p (40.5, 2)
        < columns n:20 t:1043
        < row 42|2
        < done SELECT 1
        < ready I
        > Query PREPARE p AS SELECT 1
        < error 42P05 prepared statement "p" already exists
        < ready I
        > Query DEALLOCATE p
        < done DEALLOCATE
        < ready I
        > Query EXECUTE p (1, 'x')
        < error 26000 prepared statement "p" does not exist
        < ready I
        > Query DEALLOCATE p
        < error 26000 prepared statement "p" does not exist
        < ready I
        > Query PREPARE q AS INSERT INTO missing VALUES (1)
        < done PREPARE
        < ready I
        > Query PREPARE r AS SELECT $1::INT
        < done PREPARE
        < ready I
        > Query EXECUTE r (NULL)
        < columns int4:23
        < row NULL
        < done SELECT 1
        < ready I
        "#,
    );
}
