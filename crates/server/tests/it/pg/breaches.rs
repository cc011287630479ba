//! Bytes after the login that are no messages, and messages that are too long or do not fit.

use super::conversation::converse;

#[test]
fn bytes_that_are_no_message_end_the_connection() {
    converse(
        &["pg.max_message=64KiB"],
        r#"
        ## an unknown type
        > Raw ?\0\0\0\x04
        < fatal 08P01 unknown message type 0x3f
        < end
        ## a length below four
        > Raw Q\0\0\0\x03
        < fatal 08P01 invalid message length 3: it must be from 4 to 65536 bytes
        < end
        ## a length beyond the bound
        > Raw Q\0\x01\0\x01
        < fatal 08P01 invalid message length 65537: it must be from 4 to 65536 bytes
        < end
        ## a negative length
        > Raw Q\xff\xff\xff\xff
        < fatal 08P01 invalid message length 4294967295: it must be from 4 to 65536 bytes
        < end
        ## a text without its end
        > Raw Q\0\0\0\x0cSELECT 1
        < fatal 08P01 the length of a Query message does not fit its content
        < end
        ## bytes behind the text
        > Raw Q\0\0\0\x0eSELECT 1\0x
        < fatal 08P01 the length of a Query message does not fit its content
        < end
        ## a count that is too large
        > Raw P\0\0\0\x08\0\0\0\x01
        < fatal 08P01 the length of a Parse message does not fit its content
        < end
        ## a value whose length is negative
        > Raw B\0\0\0\x10\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0
        < fatal 08P01 the length of a Bind message does not fit its content
        < end
        ## a value that is longer than its message
        > Raw B\0\0\0\x10\0\0\0\0\0\x01\0\0\0\x09\0\0
        < fatal 08P01 the length of a Bind message does not fit its content
        < end
        ## a Describe of something else
        > Raw D\0\0\0\x06X\0
        < fatal 08P01 the length of a Describe message does not fit its content
        < end
        ## an Execute without a number
        > Raw E\0\0\0\x05\0
        < fatal 08P01 the length of a Execute message does not fit its content
        < end
        ## a Sync with content
        > Raw S\0\0\0\x05x
        < fatal 08P01 the length of a Sync message does not fit its content
        < end
        ## answers before it are still sent
        > Query SELECT 1
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        > Raw !\0\0\0\x04
        < fatal 08P01 unknown message type 0x21
        < end
        "#,
    );
}

#[test]
fn messages_that_are_not_supported_leave_the_connection_as_it_is() {
    converse(
        &[],
        r#"
        ## a call of a function
        > Call
        < error 0A000 a function call by message is not supported yet
        < ready I
        > Query SELECT 1
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        ## a message in parts
        > Raw Q\0\0
        > Raw \0\x0dSELECT
        > Raw  1\0
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn prepared_statements_have_a_number() {
    converse(
        &["pg.max_prepared_per_connection=2"],
        r#"
        ## of statements
        > Parse a [] SELECT 1
        > Parse b [] SELECT 1
        > Parse c [] SELECT 1
        > Sync
        < parsed
        < parsed
        < error 53400 a connection keeps at most 2 prepared statements
        < ready I
        > Query PREPARE d AS SELECT 1
        < error 53400 a connection keeps at most 2 prepared statements
        < ready I
        > Close S a
        > Parse d [] SELECT 1
        > Sync
        < closed
        < parsed
        < ready I
        ## of portals
        > Query BEGIN
        < done BEGIN
        < ready T
        > Parse a [] SELECT 1
        > Bind a a [] [] []
        > Bind b a [] [] []
        > Bind c a [] [] []
        > Sync
        < parsed
        < bound
        < bound
        < error 53400 a connection keeps at most 2 portals
        < ready E
        "#,
    );
}
