//! The first messages of a connection: encryption, versions, parameters, logins and cancellation.

use super::conversation::converse;

#[test]
fn a_connection_begins_with_any_of_the_first_messages() {
    converse(
        &[],
        r#"
        ## raw without encryption
        > SSL
        < byte N
        > GSS
        < byte N
        > SSL
        < byte N
        > Start 3.0 user=admin
        < login ok
        < key
        < ready I
        ## raw protocol 3.2 is answered with 3.0
        > Start 3.2 user=admin
        < protocol 3.0
        < login ok
        < key
        < ready I
        ## raw options of the protocol are refused one by one
        > Start 3.0 user=admin _pq_.a=1 application_name=x _pq_.b=2
        < protocol 3.0 _pq_.a _pq_.b
        < login ok
        < key
        < ready I
        ## raw protocol 2
        > Start 2.0 user=admin
        < fatal 0A000 protocol 2.0 is not spoken here: 3.0 is
        < end
        ## raw protocol 4
        > Start 4.1 user=admin
        < fatal 0A000 protocol 4.1 is not spoken here: 3.0 is
        < end
        ## raw no user
        > Start 3.0 database=x
        < fatal 28000 no user is named
        < end
        ## raw an unknown user
        > Start 3.0 user=nobody
        < fatal 28000 user "nobody" does not exist
        < end
        ## raw replication
        > Start 3.0 user=admin replication=database
        < fatal 0A000 replication is not supported
        < end
        ## raw replication that is off
        > Start 3.0 user=admin replication=off
        < login ok
        < key
        < ready I
        > Query SELECT 1
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        ## raw bytes behind the request for encryption
        > Raw \0\0\0\x08\x04\xd2\x16\x2fmore
        < end
        "#,
    );
}

#[test]
fn parameters_of_the_first_message_are_settings() {
    converse(
        &[],
        r#"
        ## raw a zone and a name
        > Start 3.0 user=admin database=d TimeZone=Europe/Berlin application_name=it
        < login ok
        < key
        < ready I
        > Query SELECT current_database(), current_user
        < columns current_database:1043 current_user:1043
        < row d|admin
        < done SELECT 1
        < ready I
        > Query SHOW timezone
        < columns TimeZone:1043
        < row UTC
        < done SHOW
        < ready I
        > Query SHOW application_name
        < columns application_name:1043
        < row it
        < done SHOW
        < ready I
        ## raw an unknown one is no reason to refuse
        > Start 3.0 user=admin nonsense=1
        < login ok
        < key
        < ready I
        ## raw a bad value is
        > Start 3.0 user=admin TimeZone=Nowhere/None
        < login ok
        < fatal 22023 TimeZone cannot be 'Nowhere/None': it takes a time zone
        < end
        ## raw an encoding that is not UTF-8
        > Start 3.0 user=admin client_encoding=LATIN1
        < login ok
        < fatal 22023 client_encoding cannot be 'LATIN1': it takes UTF8
        < end
        ## raw an encoding in quotes
        > Start 3.0 user=admin client_encoding='UTF8'
        < login ok
        < key
        < ready I
        > Query SELECT 1
        < columns 1:20
        < row 1
        < done SELECT 1
        < ready I
        ## raw options of the command line
        > Start 3.0 user=admin options=-c\x20statement_timeout=7s
        < login ok
        < key
        < ready I
        > Query SHOW statement_timeout
        < columns statement_timeout:1043
        < row 7s
        < done SHOW
        < ready I
        ## raw text that is not UTF-8
        > Start 3.0 user=\xff
        < fatal 22021 the start-up message is not UTF-8
        < end
        "#,
    );
}

#[test]
fn malformed_first_messages_are_refused() {
    converse(
        &[],
        r#"
        ## raw a length below four
        > Raw \0\0\0\x03
        < fatal 08P01 invalid message length 3: it must be from 4 to 10000 bytes
        < end
        ## raw a length beyond the bound
        > Raw \0\0\x27\x11\0\x03\0\0
        < fatal 08P01 invalid message length 10001: it must be from 4 to 10000 bytes
        < end
        ## raw no end of the parameters
        > Raw \0\0\0\x0e\0\x03\0\0user\0\0
        < fatal 08P01 the length of a start-up message does not fit its content
        < end
        ## raw bytes behind the end
        > Raw \0\0\0\x0b\0\x03\0\0\0ab
        < fatal 08P01 the length of a start-up message does not fit its content
        < end
        ## raw a request for encryption that is too long
        > Raw \0\0\0\x09\x04\xd2\x16\x2f!
        < fatal 08P01 the length of a start-up message does not fit its content
        < end
        ## raw another protocol
        > Raw GET / HTTP/1.1\x0d\n\x0d\n
        < fatal 08P01 invalid message length 1195725856: it must be from 4 to 10000 bytes
        < end
        "#,
    );
}

#[test]
fn passwords_are_asked_for_and_checked() {
    converse(
        &["pg.auth_methods=password", "auth.admin_password=secret"],
        r#"
        ## raw the right one
        > Start 3.0 user=admin
        < login 3
        > Password secret
        < login ok
        < key
        < ready I
        ## raw a wrong one
        > Start 3.0 user=admin
        < login 3
        > Password guess
        < fatal 28P01 password authentication failed for user "admin"
        < end
        ## raw of an unknown user
        > Start 3.0 user=nobody
        < login 3
        > Password secret
        < fatal 28P01 password authentication failed for user "nobody"
        < end
        ## raw another message in its place
        > Start 3.0 user=admin
        < login 3
        > Query SELECT 1
        < fatal 08P01 a password is awaited
        < end
        ## raw a password that is too long
        > Start 3.0 user=admin
        < login 3
        > Raw p\0\0\x10\x01
        < fatal 08P01 invalid message length 4097: it must be from 4 to 4096 bytes
        < end
        ## raw the end
        > Start 3.0 user=admin
        < login 3
        > Terminate
        < end
        "#,
    );
}

#[test]
fn the_exchange_of_messages_is_checked() {
    converse(
        &["pg.auth_methods=scram-sha-256", "auth.admin_password=secret"],
        r#"
        ## raw a mechanism that was not offered
        > Start 3.0 user=admin
        < login 10 SCRAM-SHA-256\x00\x00
        > Raw p\0\0\0\x1bSCRAM-SHA-1\0\0\0\0\x07n,,n=,r
        < fatal 08P01 this SASL mechanism was not offered
        < end
        ## raw a length that is not that of the rest
        > Start 3.0 user=admin
        < login 10 SCRAM-SHA-256\x00\x00
        > Raw p\0\0\0\x1dSCRAM-SHA-256\0\0\0\0\x09n,,n=,r
        < fatal 08P01 a SASL message is malformed
        < end
        ## raw no nonce
        > Start 3.0 user=admin
        < login 10 SCRAM-SHA-256\x00\x00
        > Raw p\0\0\0\x1dSCRAM-SHA-256\0\0\0\0\x07n,,n=,x
        < fatal 08P01 a SASL message is malformed
        < end
        ## raw the binding of another mechanism
        > Start 3.0 user=admin
        < login 10 SCRAM-SHA-256\x00\x00
        > Raw p\0\0\0\x25SCRAM-SHA-256\0\0\0\0\x0fp=tls,,n=,r=abc
        < fatal 08P01 a SASL message is malformed
        < end
        "#,
    );
}

#[test]
fn a_password_after_the_login_ends_the_connection() {
    converse(
        &[],
        r#"
        ## unasked
        > Password x
        < fatal 08P01 no password was requested
        < end
        "#,
    );
}

#[test]
fn a_request_to_cancel_an_unknown_connection_has_no_answer() {
    converse(
        &[],
        r#"
        ## raw with four bytes
        > Raw \0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x07
        < end
        ## raw with more bytes, as of protocol 3.2
        > Raw \0\0\0\x14\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x07abcd
        < end
        "#,
    );
}
