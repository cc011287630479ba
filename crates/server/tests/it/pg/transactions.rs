//! Transactions and cursors: the status after each statement, savepoints, implicit transactions.

use super::conversation::converse;

#[test]
fn the_status_follows_the_transaction() {
    converse(
        &[],
        r#"
        ## from BEGIN to COMMIT
        > Query CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)
        < done CREATE TABLE
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query INSERT INTO t VALUES (1, 1)
        < done INSERT 0 1
        < ready T
        > Query BEGIN
        < warning 25001 there is already a transaction in progress
        < done BEGIN
        < ready T
        > Query COMMIT
        < done COMMIT
        < ready I
        > Query COMMIT
        < warning 25P01 there is no transaction in progress
        < done COMMIT
        < ready I
        > Query ROLLBACK
        < warning 25P01 there is no transaction in progress
        < done ROLLBACK
        < ready I
        > Query SELECT n FROM t
        < columns n:23
        < row 1
        < done SELECT 1
        < ready I
        ## a failed one takes nothing but its end
        > Query BEGIN; INSERT INTO t VALUES (2, 2)
        < done BEGIN
        < done INSERT 0 1
        < ready T
        > Query SELECT 1/0
        < columns 1 / 0:20
        < error 22012 division by zero [at 9]
        < ready E
        > Query SELECT 1
        < error 25P02 current transaction is aborted, commands ignored until end of transaction...
        < ready E
        > Query SAVEPOINT a
        < error 25P02 current transaction is aborted, commands ignored until end of transaction...
        < ready E
        > Query
        < empty
        < ready E
        > Query COMMIT
        < done ROLLBACK
        < ready I
        > Query SELECT n FROM t
        < columns n:23
        < row 1
        < done SELECT 1
        < ready I
        ## abort and end are other words
        > Query START TRANSACTION
        < done BEGIN
        < ready T
        > Query ABORT
        < done ROLLBACK
        < ready I
        > Query BEGIN WORK
        < done BEGIN
        < ready T
        > Query END
        < done COMMIT
        < ready I
        > Query BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE
        < done BEGIN
        < ready T
        > Query ROLLBACK WORK
        < done ROLLBACK
        < ready I
        "#,
    );
}

#[test]
fn savepoints_keep_what_was_before() {
    converse(
        &[],
        r#"
        ## rolled back to, and released
        > Query CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)
        < done CREATE TABLE
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query INSERT INTO t VALUES (1, 1)
        < done INSERT 0 1
        < ready T
        > Query SAVEPOINT a
        < done SAVEPOINT
        < ready T
        > Query INSERT INTO t VALUES (2, 2)
        < done INSERT 0 1
        < ready T
        > Query SELECT 1/0
        < columns 1 / 0:20
        < error 22012 division by zero [at 9]
        < ready E
        > Query ROLLBACK TO a
        < done ROLLBACK
        < ready T
        > Query INSERT INTO t VALUES (3, 3)
        < done INSERT 0 1
        < ready T
        > Query RELEASE SAVEPOINT a
        < done RELEASE
        < ready T
        > Query ROLLBACK TO SAVEPOINT a
        < error 3B001 savepoint "a" does not exist
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 0
        < done SELECT 1
        < ready I
        ## outside of a transaction
        > Query SAVEPOINT a
        < error 25P01 SAVEPOINT can only be used in transaction blocks
        < ready I
        > Query RELEASE a
        < error 25P01 RELEASE SAVEPOINT can only be used in transaction blocks
        < ready I
        > Query ROLLBACK TO a
        < error 25P01 ROLLBACK TO SAVEPOINT can only be used in transaction blocks
        < ready I
        ## unknown
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query RELEASE b
        < error 3B001 savepoint "b" does not exist
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        "#,
    );
}

#[test]
fn statements_of_one_message_are_one_transaction() {
    converse(
        &[],
        r#"
        ## all, or none
        > Query CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)
        < done CREATE TABLE
        < ready I
        > Query INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (2, 2); SELECT count(*) FROM t
        < done INSERT 0 1
        < done INSERT 0 1
        < columns count:20
        < row 2
        < done SELECT 1
        < ready I
        > Query INSERT INTO t VALUES (3, 3); SELECT 1/0
        < done INSERT 0 1
        < columns 1 / 0:20
        < error 22012 division by zero [at 38]
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 2
        < done SELECT 1
        < ready I
        > Query INSERT INTO t VALUES (4, 4); BEGIN; INSERT INTO t VALUES (5, 5)
        < done INSERT 0 1
        < done BEGIN
        < done INSERT 0 1
        < ready T
        > Query ROLLBACK
        < done ROLLBACK
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
fn read_only_transactions_change_nothing() {
    converse(
        &[],
        r#"
        ## asked for in each way
        > Query CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)
        < done CREATE TABLE
        < ready I
        > Query BEGIN READ ONLY
        < done BEGIN
        < ready T
        > Query INSERT INTO t VALUES (1, 1)
        < error 25006 cannot execute INSERT in a read-only transaction
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query BEGIN; SET TRANSACTION READ ONLY
        < done BEGIN
        < done SET
        < ready T
        > Query DELETE FROM t
        < error 25006 cannot execute DELETE in a read-only transaction
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query SET default_transaction_read_only = on
        < done SET
        < ready I
        > Query DROP TABLE t
        < error 25006 cannot execute DROP TABLE in a read-only transaction
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 0
        < done SELECT 1
        < ready I
        > Query SET default_transaction_read_only = off
        < done SET
        < ready I
        > Query INSERT INTO t VALUES (1, 1)
        < done INSERT 0 1
        < ready I
        "#,
    );
}

#[test]
fn cursors_give_their_rows_in_parts() {
    converse(
        &[],
        r#"
        ## fetched and moved
        > Query DECLARE c CURSOR FOR SELECT 1
        < error 25P01 DECLARE CURSOR can only be used in transaction blocks
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DECLARE c CURSOR FOR SELECT x FROM long_sequence(5)
        < done DECLARE CURSOR
        < ready T
        > Query DECLARE c CURSOR FOR SELECT 1
        < error 42P03 cursor "c" already exists
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DECLARE c CURSOR FOR SELECT x FROM long_sequence(5)
        < done DECLARE CURSOR
        < ready T
        > Query FETCH c
        < columns x:20
        < row 1
        < done FETCH 1
        < ready T
        > Query FETCH NEXT FROM c
        < columns x:20
        < row 2
        < done FETCH 1
        < ready T
        > Query FETCH 0 FROM c
        < columns x:20
        < done FETCH 0
        < ready T
        > Query MOVE FORWARD 1 FROM c
        < done MOVE 1
        < ready T
        > Query FETCH FORWARD ALL FROM c
        < columns x:20
        < row 4
        < row 5
        < done FETCH 2
        < ready T
        > Query FETCH 1 FROM c
        < columns x:20
        < done FETCH 0
        < ready T
        > Query CLOSE c
        < done CLOSE CURSOR
        < ready T
        > Query FETCH 1 FROM c
        < error 34000 cursor "c" does not exist
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        ## backward
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DECLARE c CURSOR FOR SELECT x FROM long_sequence(5)
        < done DECLARE CURSOR
        < ready T
        > Query FETCH PRIOR FROM c
        < error 55000 a cursor goes forward only
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        ## in the binary format
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DECLARE c BINARY CURSOR FOR SELECT x, 'a' AS s FROM long_sequence(1)
        < done DECLARE CURSOR
        < ready T
        > Query FETCH 1 FROM c
        < columns x:20:b s:1043:b
        < row \x00\x00\x00\x00\x00\x00\x00\x01|a
        < done FETCH 1
        < ready T
        > Query COMMIT
        < done COMMIT
        < ready I
        ## held
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query DECLARE h CURSOR WITH HOLD FOR SELECT x FROM long_sequence(3)
        < done DECLARE CURSOR
        < ready T
        > Query COMMIT
        < done COMMIT
        < ready I
        > Query FETCH 2 FROM h
        < columns x:20
        < row 1
        < row 2
        < done FETCH 2
        < ready I
        > Query CLOSE h
        < done CLOSE CURSOR
        < ready I
        > Query CLOSE h
        < error 34000 cursor "h" does not exist
        < ready I
        "#,
    );
}
