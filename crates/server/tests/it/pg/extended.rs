//! The extended protocol: statements, portals, pipelines, and errors up to the next Sync.

use super::conversation::converse;

#[test]
fn a_statement_is_parsed_bound_described_and_executed() {
    converse(
        &[],
        r#"
        ## in one pipeline
        > Parse - [] SELECT 1 AS a
        > Bind - - [] [] []
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns a:20
        < row 1
        < done SELECT 1
        < ready I
        ## the description of a statement has its parameters
        > Parse s [] SELECT x + $1 AS y FROM long_sequence(3) WHERE x > $2
        > Describe S s
        > Sync
        < parsed
        < parameters 20 20
        < columns y:20
        < ready I
        > Bind - s [] [10|1] []
        > Execute - 0
        > Sync
        < bound
        < row 12
        < row 13
        < done SELECT 2
        < ready I
        ## declared types
        > Parse s [23 25] SELECT $1 AS a, $2 AS b
        > Describe S s
        > Bind - s [] [7|x] []
        > Execute - 0
        > Sync
        < parsed
        < parameters 23 25
        < columns a:20 b:25
        < bound
        < row 7|x
        < done SELECT 1
        < ready I
        ## values that are NULL
        > Parse s [20 25 16] SELECT $1 AS a, $2 AS b, $3 AS c
        > Bind - s [] [NULL|NULL|NULL] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row NULL|NULL|NULL
        < done SELECT 1
        < ready I
        ## a statement without rows
        > Parse s [] CREATE TABLE t (n INT)
        > Describe S s
        > Bind - s [] [] []
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < parameters
        < no data
        < bound
        < no data
        < done CREATE TABLE
        < ready I
        ## an empty statement
        > Parse - []
        > Describe S -
        > Bind - - [] [] []
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < parameters
        < no data
        < bound
        < no data
        < empty
        < ready I
        ## several statements
        > Parse - [] SELECT 1; SELECT 2
        > Sync
        < error 42601 cannot insert multiple commands into a prepared statement
        < ready I
        "#,
    );
}

#[test]
fn portals_are_suspended_at_their_limit() {
    converse(
        &[],
        r#"
        ## of a query
        > Query BEGIN
        < done BEGIN
        < ready T
        > Parse s [] SELECT x FROM long_sequence(5)
        > Bind p s [] [] []
        > Execute p 2
        > Execute p 2
        > Execute p 2
        > Execute p 2
        > Sync
        < parsed
        < bound
        < row 1
        < row 2
        < suspended
        < row 3
        < row 4
        < suspended
        < row 5
        < done SELECT 1
        < done SELECT 0
        < ready T
        > Execute p 0
        > Sync
        < done SELECT 0
        < ready T
        > Query COMMIT
        < done COMMIT
        < ready I
        ## exactly at the last row
        > Parse s [] SELECT x FROM long_sequence(2)
        > Bind p s [] [] []
        > Execute p 2
        > Execute p 2
        > Sync
        < parsed
        < bound
        < row 1
        < row 2
        < suspended
        < done SELECT 0
        < ready I
        ## two that take turns
        > Query BEGIN
        < done BEGIN
        < ready T
        > Parse s [] SELECT x FROM long_sequence(3)
        > Bind a s [] [] []
        > Bind b s [] [] []
        > Execute a 1
        > Execute b 2
        > Execute a 1
        > Execute b 0
        > Close P a
        > Execute a 1
        > Sync
        < parsed
        < bound
        < bound
        < row 1
        < suspended
        < row 1
        < row 2
        < suspended
        < row 2
        < suspended
        < row 3
        < done SELECT 1
        < closed
        < error 34000 portal "a" does not exist
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        ## gone with the transaction
        > Parse s [] SELECT x FROM long_sequence(3)
        > Bind p s [] [] []
        > Execute p 1
        > Sync
        < parsed
        < bound
        < row 1
        < suspended
        < ready I
        > Execute p 1
        > Sync
        < error 34000 portal "p" does not exist
        < ready I
        "#,
    );
}

#[test]
fn an_error_skips_messages_up_to_the_next_sync() {
    converse(
        &[],
        r#"
        ## in Parse
        > Parse s [] SELEC 1
        > Bind - s [] [] []
        > Execute - 0
        > Query SELECT 'skipped'
        < parsed
        < bound
        < error 42601 expected SELECT, VALUES, or a subquery in the query body, found `SELEC` [...
        > Flush
        > Sync
        < ready I
        > Query SELECT 1
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        ## in Execute
        > Parse s [] SELECT 10 / $1 AS n
        > Bind - s [] [0] []
        > Execute - 0
        > Bind - s [] [5] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < error 22012 division by zero [at 11]
        < ready I
        > Bind - s [] [5] []
        > Execute - 0
        > Sync
        < bound
        < row 2
        < done SELECT 1
        < ready I
        ## several Syncs
        > Sync
        < ready I
        > Sync
        < ready I
        > Execute nowhere 0
        > Sync
        < error 34000 portal "nowhere" does not exist
        < ready I
        > Sync
        < ready I
        ## in a transaction
        > Query BEGIN
        < done BEGIN
        < ready T
        > Parse - [] SELECT nope
        > Sync
        < parsed
        < ready T
        > Parse - [] SELECT 1
        > Sync
        < parsed
        < ready T
        > Parse - [] ROLLBACK
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < done ROLLBACK
        < ready I
        "#,
    );
}

#[test]
fn names_of_statements_and_portals_are_found_or_not() {
    converse(
        &[],
        r#"
        ## unknown
        > Bind - nope [] [] []
        > Sync
        < error 26000 prepared statement "nope" does not exist
        < ready I
        > Describe S nope
        > Sync
        < error 26000 prepared statement "nope" does not exist
        < ready I
        > Describe P nope
        > Sync
        < error 34000 portal "nope" does not exist
        < ready I
        > Execute nope 0
        > Sync
        < error 34000 portal "nope" does not exist
        < ready I
        > Close S nope
        > Close P nope
        > Sync
        < closed
        < closed
        < ready I
        ## twice
        > Parse s [] SELECT 1
        > Parse s [] SELECT 2
        > Sync
        < parsed
        < error 42P05 prepared statement "s" already exists
        < ready I
        > Parse - [] SELECT 3
        > Parse - [] SELECT 4 AS four
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < parsed
        < bound
        < row 4
        < done SELECT 1
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Bind p s [] [] []
        > Bind p s [] [] []
        > Sync
        < bound
        < error 42P03 portal "p" already exists
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        ## closed
        > Parse t [] SELECT 1
        > Close S t
        > Bind - t [] [] []
        > Sync
        < parsed
        < closed
        < error 26000 prepared statement "t" does not exist
        < ready I
        ## shared with SQL
        > Query PREPARE q AS SELECT 5 AS five
        < done PREPARE
        < ready I
        > Bind - q [] [] []
        > Execute - 0
        > Sync
        < bound
        < row 5
        < done SELECT 1
        < ready I
        > Parse r [] SELECT 6 AS six
        > Sync
        < parsed
        < ready I
        > Query EXECUTE r
        < columns six:20
        < row 6
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn values_have_to_fit_their_parameters() {
    converse(
        &[],
        r#"
        ## numbers
        > Parse s [23] SELECT $1 AS n
        > Bind - s [] [] []
        > Sync
        < parsed
        < error 08P01 bind message supplies 0 parameters, but prepared statement requires 1
        < ready I
        > Bind - s [] [1|2] []
        > Sync
        < error 08P01 bind message supplies 2 parameters, but prepared statement requires 1
        < ready I
        > Bind - s [] [x] []
        > Sync
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Bind - s [1] [\0\0\0\x07] []
        > Execute - 0
        > Sync
        < bound
        < row 7
        < done SELECT 1
        < ready I
        > Bind - s [1] [\0\x07] []
        > Sync
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        > Bind - s [2] [7] []
        > Sync
        < error 08P01 2 is not a format of values
        < ready I
        > Bind - s [0 0] [7] []
        > Sync
        < error 08P01 bind message has 2 formats for 1 parameters
        < ready I
        > Bind - s [0] [\xff] []
        > Sync
        < error 22021 invalid byte sequence for encoding "UTF8"
        < ready I
        ## formats of results
        > Parse s [] SELECT 1 AS a, 'b' AS b
        > Bind - s [] [] [1]
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < columns a:20:b b:1043:b
        < row \x00\x00\x00\x00\x00\x00\x00\x01|b
        < done SELECT 1
        < ready I
        > Bind - s [] [] [0 1]
        > Execute - 0
        > Sync
        < bound
        < row 1|b
        < done SELECT 1
        < ready I
        > Bind - s [] [] [0 0 0]
        > Execute - 0
        > Sync
        < bound
        < error 08P01 bind message has 3 result formats but query has 2 columns
        < ready I
        > Bind - s [] [] [7]
        > Sync
        < error 08P01 7 is not a format of values
        < ready I
        ## types
        > Parse - [] SELECT $1
        > Describe S -
        > Sync
        < parsed
        < parameters 25
        < columns $1:25
        < ready I
        > Parse - [] SELECT $1 IS NULL
        > Describe S -
        > Sync
        < parsed
        < error 42P18 could not determine data type of parameter $1
        < ready I
        > Parse - [99999] SELECT $1
        > Describe S -
        > Sync
        < parsed
        < parameters 99999
        < columns $1:25
        < ready I
        > Parse - [] SELECT $2::INT
        > Describe S -
        > Sync
        < parsed
        < error 42P18 could not determine data type of parameter $1
        < ready I
        "#,
    );
}

#[test]
fn a_pipeline_commits_at_its_sync() {
    converse(
        &[],
        r#"
        ## a failure takes all of it
        > Query CREATE TABLE t (n INT)
        < done CREATE TABLE
        < ready I
        > Parse i [23] INSERT INTO t VALUES ($1)
        > Bind - i [] [1] []
        > Execute - 0
        > Bind - i [] [2] []
        > Execute - 0
        > Parse f [] SELECT 1/0
        > Bind - f [] [] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < done INSERT 0 1
        < bound
        < done INSERT 0 1
        < parsed
        < bound
        < error 22012 division by zero [at 9]
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 0
        < done SELECT 1
        < ready I
        > Bind - i [] [3] []
        > Execute - 0
        > Flush
        < bound
        < done INSERT 0 1
        > Bind - i [] [4] []
        > Execute - 0
        > Sync
        < bound
        < done INSERT 0 1
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 2
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn statements_about_the_connection_can_be_prepared() {
    converse(
        &[],
        r#"
        ## settings
        > Parse - [] SET application_name = 'x'
        > Bind - - [] [] []
        > Describe P -
        > Execute - 0
        > Sync
        < parsed
        < bound
        < no data
        < setting application_name=x
        < done SET
        < ready I
        > Parse - [] SHOW application_name
        > Describe S -
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < parameters
        < columns application_name:1043
        < bound
        < row x
        < done SHOW
        < ready I
        ## transactions
        > Parse - [] BEGIN
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < done BEGIN
        < ready T
        > Parse - [] DECLARE c CURSOR FOR SELECT x FROM long_sequence(2)
        > Bind - - [] [] []
        > Execute - 0
        > Parse - [] FETCH ALL FROM c
        > Describe S -
        > Bind - - [] [] []
        > Execute - 0
        > Parse - [] COMMIT
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < done DECLARE CURSOR
        < parsed
        < parameters
        < columns x:20
        < bound
        < row 1
        < row 2
        < done FETCH 2
        < parsed
        < bound
        < done COMMIT
        < ready I
        ## explained
        > Parse - [] EXPLAIN SELECT 1
        > Describe S -
        > Sync
        < parsed
        < parameters
        < columns QUERY PLAN:1043
        < ready I
        "#,
    );
}

#[test]
fn a_changed_table_ends_the_plans_of_its_statements() {
    converse(
        &[],
        r#"
        ## with other columns
        > Query CREATE TABLE t (n INT)
        < done CREATE TABLE
        < ready I
        > Parse s [] SELECT * FROM t
        > Describe S s
        > Bind - s [] [] []
        > Execute - 0
        > Sync
        < parsed
        < parameters
        < columns n:23
        < bound
        < done SELECT 0
        < ready I
        > Query ALTER TABLE t ADD COLUMN m INT
        < done ALTER TABLE
        < ready I
        > Bind - s [] [] []
        > Execute - 0
        > Sync
        < bound
        < error 0A000 cached plan must not change result type
        < ready I
        > Query DROP TABLE t
        < done DROP TABLE
        < ready I
        > Bind - s [] [] []
        > Execute - 0
        > Sync
        < bound
        < error 42P01 table `t` does not exist [at 15]
        < ready I
        "#,
    );
}

#[test]
fn each_parameter_has_its_format() {
    converse(
        &[],
        r#"
        ## one for each
        > Parse s [23 23 25] SELECT $1 AS a, $2 AS b, $3 AS c
        > Bind - s [1 0 1] [\0\0\0\x07|8|x] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 7|8|x
        < done SELECT 1
        < ready I
        ## one for all
        > Parse s [23 23] SELECT $1 AS a, $2 AS b
        > Bind - s [1] [\0\0\0\x07|\0\0\0\x08] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 7|8
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn flush_sends_the_answers_so_far() {
    converse(
        &[],
        r#"
        ## after each message
        > Parse s [] SELECT 1 AS a
        > Flush
        < parsed
        > Describe S s
        > Flush
        < parameters
        < columns a:20
        > Bind p s [] [] []
        > Flush
        < bound
        > Execute p 0
        > Flush
        < row 1
        < done SELECT 1
        > Sync
        < ready I
        "#,
    );
}

#[test]
fn a_portal_lives_through_sync_within_a_transaction() {
    converse(
        &[],
        r#"
        ## in parts
        > Query BEGIN
        < done BEGIN
        < ready T
        > Parse s [] SELECT x FROM long_sequence(3)
        > Bind p s [] [] []
        > Execute p 1
        > Sync
        < parsed
        < bound
        < row 1
        < suspended
        < ready T
        > Execute p 1
        > Sync
        < row 2
        < suspended
        < ready T
        > Execute p 0
        > Sync
        < row 3
        < done SELECT 1
        < ready T
        > Execute p 0
        > Sync
        < done SELECT 0
        < ready T
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        "#,
    );
}
