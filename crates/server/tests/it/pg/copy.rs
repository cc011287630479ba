//! COPY over the connection: rows in and out, in each format, and everything that ends it.

use super::conversation::converse;

#[test]
fn rows_come_in() {
    converse(
        &[],
        r#"
        ## as text
        > Query CREATE TABLE t (n INT, s VARCHAR)
        < done CREATE TABLE
        < ready I
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyData 1\ta
        > CopyData b\n2\t\\N\n
        > CopyData 3\t\\\\ \\t\n
        > CopyDone
        < done COPY 3
        < ready I
        > Query SELECT n, s FROM t ORDER BY n
        < columns n:23 s:1043
        < row 1|ab
        < row 2|NULL
        < row 3|\\ \t
        < done SELECT 3
        < ready I
        ## as CSV, with names and some columns
        > Query COPY t (s, n) FROM STDIN WITH (FORMAT csv, HEADER)
        < copy in 0 2
        > CopyData s,n\n"x,\n""y""",4\n
        > CopyDone
        < done COPY 1
        < ready I
        > Query SELECT s FROM t WHERE n = 4
        < columns s:1043
        < row x,\n"y"
        < done SELECT 1
        < ready I
        ## with other delimiters
        > Query COPY t FROM STDIN WITH (FORMAT csv, DELIMITER ';', NULL 'none')
        < copy in 0 2
        > CopyData 5;none\n
        > CopyDone
        < done COPY 1
        < ready I
        > Query SELECT n, s FROM t WHERE n = 5
        < columns n:23 s:1043
        < row 5|NULL
        < done SELECT 1
        < ready I
        ## in the binary format
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 2
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x02\0\0\0\x04\0\0\0\x06\xff\xff\xff\xff\xff\xff
        > CopyDone
        < done COPY 1
        < ready I
        > Query SELECT n, s FROM t WHERE n = 6
        < columns n:23 s:1043
        < row 6|NULL
        < done SELECT 1
        < ready I
        ## none
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyDone
        < done COPY 0
        < ready I
        ## in the extended protocol
        > Parse - [] COPY t FROM STDIN
        > Bind - - [] [] []
        > Execute - 0
        > CopyData 7\tz\n
        > CopyDone
        > Sync
        < parsed
        < bound
        < copy in 0 2
        < done COPY 1
        < ready I
        "#,
    );
}

#[test]
fn rows_that_do_not_fit_change_nothing() {
    converse(
        &[],
        r#"
        ## values
        > Query CREATE TABLE t (n INT, s VARCHAR)
        < done CREATE TABLE
        < ready I
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyData 1\ta\nx\tb\n
        > CopyDone
        < error 22P02 STDIN, line 2 (byte 8), column `n`: not a number: `"x"`
        < ready I
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyData 1\ta\tb\n
        > CopyDone
        < error 22P04 STDIN: the file has 3 columns and the table 2
        < ready I
        > Query COPY t FROM STDIN WITH (FORMAT csv)
        < copy in 0 2
        > CopyData 1,"open\n
        > CopyDone
        < error 22P04 STDIN: line 1: the quote that opens at byte 2 is never closed
        < ready I
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 2
        > CopyData nonsense that is long enough
        > CopyDone
        < error 22P04 COPY file signature not recognized [COPY, row 0]
        < ready I
        ## the client gives up
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyData 1\ta\n
        > CopyFail no more
        < error 57014 COPY from stdin failed: no more
        < ready I
        > Query COPY t FROM STDIN
        < copy in 0 2
        > CopyData 1\ta\n
        > Query SELECT 1
        < fatal 08P01 a message that is no part of a COPY
        < end
        ## statements that cannot begin
        > Query COPY t (nope) FROM STDIN
        < error 42703 column `nope` does not exist [at 9]
        < ready I
        > Query COPY t FROM STDIN WITH (NOPE)
        < error 42601 expected an option (FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, TIMES...
        < ready I
        > Query COPY t FROM STDIN WITH (DELIMITER 'ab')
        < error 22023 DELIMITER takes one ASCII character that is no line end [at 35]
        < ready I
        > Query COPY t FROM STDIN WITH (FORMAT xml)
        < error 42601 expected csv, text, binary, parquet, jsonl, ndjson, arrow, found `xml` [a...
        < ready I
        > Query COPY t FROM STDIN WITH (HEADER maybe)
        < error 42601 expected true, false, on, off, 1, 0, none, match, auto, found `maybe` [at...
        < ready I
        ## messages of a COPY outside of one
        > CopyData 1\ta\n
        > CopyDone
        > CopyFail x
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 0
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn rows_go_out() {
    converse(
        &[],
        r#"
        ## as text
        > Query CREATE TABLE t (n INT, s VARCHAR)
        < done CREATE TABLE
        < ready I
        > Query INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'x\ty')
        < done INSERT 0 3
        < ready I
        > Query COPY t TO STDOUT
        < copy out 0 2
        < data 1\ta\n
        < data 2\t\\N\n
        < data 3\tx\\ty\n
        < copied
        < done COPY 3
        < ready I
        > Query COPY t (s) TO STDOUT
        < copy out 0 1
        < data a\n
        < data \\N\n
        < data x\\ty\n
        < copied
        < done COPY 3
        < ready I
        > Query COPY (SELECT n + 1 AS m FROM t WHERE n > 1) TO STDOUT
        < copy out 0 1
        < data 3\n
        < data 4\n
        < copied
        < done COPY 2
        < ready I
        ## as CSV
        > Query COPY t TO STDOUT WITH (FORMAT csv, HEADER)
        < copy out 0 2
        < data n,s\n
        < data 1,a\n
        < data 2,\n
        < data 3,x\ty\n
        < copied
        < done COPY 3
        < ready I
        > Query COPY (SELECT 'a,b' AS c, '"' AS q, '' AS e, NULL AS n) TO STDOUT CSV
        < copy out 0 4
        < data "a,b","""","",\n
        < copied
        < done COPY 1
        < ready I
        > Query COPY t TO STDOUT WITH (FORMAT csv, DELIMITER '|', NULL '-')
        < copy out 0 2
        < data 1\x7ca\n
        < data 2\x7c-\n
        < data 3\x7cx\ty\n
        < copied
        < done COPY 3
        < ready I
        ## in the binary format
        > Query COPY (SELECT 1::INT AS a, 'b' AS b, NULL::INT AS c) TO STDOUT (FORMAT binary)
        < copy out 1 3
        < data PGCOPY\n\xff\x0d\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x04\x...
        < data \xff\xff
        < copied
        < done COPY 1
        < ready I
        ## nothing
        > Query COPY (SELECT 1 WHERE false) TO STDOUT
        < copy out 0 1
        < copied
        < done COPY 0
        < ready I
        ## an error after rows
        > Query COPY (SELECT 1/0) TO STDOUT
        < copy out 0 1
        < error 22012 line 1, column 15: division by zero
        < ready I
        > Query COPY missing TO STDOUT
        < error 42P01 table `missing` does not exist [at 6]
        < ready I
        ## in the extended protocol
        > Parse - [] COPY t TO STDOUT
        > Describe S -
        > Bind - - [] [] []
        > Execute - 0
        > Sync
        < parsed
        < parameters
        < no data
        < bound
        < copy out 0 2
        < data 1\ta\n
        < data 2\t\\N\n
        < data 3\tx\\ty\n
        < copied
        < done COPY 3
        < ready I
        "#,
    );
}

#[test]
fn rows_of_a_transaction_wait_for_its_end() {
    converse(
        &[],
        r#"
        ## rolled back
        > Query CREATE TABLE t (n INT)
        < done CREATE TABLE
        < ready I
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query COPY t FROM STDIN
        < copy in 0 1
        > CopyData 1\n2\n
        > CopyDone
        < done COPY 2
        < ready T
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 2
        < done SELECT 1
        < ready T
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        > Query SELECT count(*) FROM t
        < columns count:20
        < row 0
        < done SELECT 1
        < ready I
        ## an error fails it
        > Query BEGIN
        < done BEGIN
        < ready T
        > Query COPY t FROM STDIN
        < copy in 0 1
        > CopyFail x
        < error 57014 COPY from stdin failed: x
        < ready E
        > Query COMMIT
        < done ROLLBACK
        < ready I
        ## read only
        > Query BEGIN READ ONLY
        < done BEGIN
        < ready T
        > Query COPY t FROM STDIN
        < error 25006 cannot execute COPY in a read-only transaction
        < ready E
        > Query ROLLBACK
        < done ROLLBACK
        < ready I
        "#,
    );
}

#[test]
fn rows_in_the_binary_format_are_checked() {
    converse(
        &[],
        r#"
        ## the length of a row is not the number of columns
        > Query CREATE TABLE t (n INT, s VARCHAR, d DOUBLE)
        < done CREATE TABLE
        < ready I
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x02\0\0\0\x04\0\0\0\x06\xff\xff\xff\xff\xff\xff
        > CopyDone
        < error 22P04 row field count is 2, expected 3 [COPY, row 1]
        < ready I
        ## a value of the wrong length
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x03\0\0\0\x02\0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff
        > CopyDone
        < error 22P03 incorrect binary data format [COPY, row 1, column n]
        < ready I
        ## the second row is bad
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x03\0\0\0\x04\0\0\0\x06\xff\xff\xff\xff\xff\xff\xff\xff
        > CopyData \0\x03\0\0\0\x04\0\0\0\x07\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff
        > CopyDone
        < error 22021 invalid byte sequence for encoding "UTF8" [COPY, row 2, column s]
        < ready I
        ## it ends in the middle of a row
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x03\0\0\0\x04\0\0
        > CopyDone
        < error 22P04 the data ends in the middle of a row [COPY, row 1, column n]
        < ready I
        ## there is no trailer
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyDone
        < done COPY 0
        < ready I
        ## bytes behind the trailer
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0\xff\xffmore
        > CopyDone
        < error 22P04 bytes follow the last row [COPY, row 0]
        < ready I
        ## an unknown critical flag
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\x01\0\0\0\0\0\0\xff\xff
        > CopyDone
        < error 22P04 the header has unknown flags 0x00010000 [COPY, row 0]
        < ready I
        ## old rows with oids
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\x01\0\0\0\0\0\0\0\xff\xff
        > CopyDone
        < error 22P04 the header has unknown flags 0x00010000 [COPY, row 0]
        < ready I
        ## an extension of the header is passed over
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\x03abc
        > CopyData \0\x03\0\0\0\x04\0\0\0\x08\0\0\0\x01z\0\0\0\x08\x3f\xf8\0\0\0\0\0\0\xff\xff
        > CopyDone
        < done COPY 1
        < ready I
        ## a length below that of NULL
        > Query COPY t FROM STDIN WITH (FORMAT binary)
        < copy in 1 3
        > CopyData PGCOPY\n\xff\x0d\n\0\0\0\0\0\0\0\0\0
        > CopyData \0\x03\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff
        > CopyDone
        < error 22P04 a field has the invalid length -2: it must be from -1 to 67108864...
        < ready I
        ## only the row of the good one is there
        > Query SELECT n, s, d FROM t
        < columns n:23 s:1043 d:701
        < row 8|z|1.5
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn a_copy_is_one_of_the_statements_and_messages_around_it() {
    converse(
        &[],
        r#"
        ## Sync and Flush within a COPY are passed over
        > Query CREATE TABLE t (n INT)
        < done CREATE TABLE
        < ready I
        > Query COPY t (n) FROM STDIN
        < copy in 0 1
        > CopyData 20\n
        > Sync
        > Flush
        > CopyData 21\n
        > CopyDone
        < done COPY 2
        < ready I
        ## behind the end mark
        > Query COPY t (n) FROM STDIN
        < copy in 0 1
        > CopyData 22\n\\.\n
        > CopyDone
        < done COPY 1
        < ready I
        ## a COPY between other statements
        > Query SELECT 1 AS a; COPY t (n) FROM STDIN; SELECT 2 AS b
        < columns a:20
        < row 1
        < done SELECT 1
        < copy in 0 1
        > CopyData 30\n
        > CopyDone
        < done COPY 1
        < columns b:20
        < row 2
        < done SELECT 1
        < ready I
        > Query COPY t (n) FROM STDIN; COPY t (n) FROM STDIN
        < copy in 0 1
        > CopyData 31\n
        > CopyDone
        < done COPY 1
        < copy in 0 1
        > CopyData 32\n
        > CopyDone
        < done COPY 1
        < ready I
        ## an error in a COPY ends the message
        > Query COPY t (n) FROM STDIN; SELECT 2 AS b
        < copy in 0 1
        > CopyData x\n
        > CopyDone
        < error 22P02 STDIN, line 1 (byte 0), column `n`: not a number: `"x"`
        < ready I
        > Query SELECT n FROM t WHERE n >= 20 ORDER BY n
        < columns n:23
        < row 20
        < row 21
        < row 22
        < row 30
        < row 31
        < row 32
        < done SELECT 6
        < ready I
        ## the end of a COPY with an error in a pipeline
        > Parse - [] COPY t (n) FROM STDIN
        > Bind - - [] [] []
        > Execute - 0
        > CopyData x\n
        > CopyDone
        > Parse - [] SELECT 1 AS a
        > Sync
        < parsed
        < bound
        < copy in 0 1
        < error 22P02 STDIN, line 1 (byte 0), column `n`: not a number: `"x"`
        < ready I
        > Query SELECT 3 AS c
        < columns c:20
        < row 3
        < done SELECT 1
        < ready I
        "#,
    );
}
