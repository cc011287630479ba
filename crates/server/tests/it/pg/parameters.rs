//! Values of parameters of each type, in the text format and in the binary one.

use super::conversation::converse;

#[test]
fn values_of_parameters_are_read_in_both_formats() {
    converse(
        &[],
        r#"
        ## type 16
        > Parse s [16] SELECT $1 AS v
        > Bind - s [0] [t] []
        > Execute - 0
        > Bind - s [1] [\x01] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row t
        < done SELECT 1
        < bound
        < row t
        < done SELECT 1
        < ready I
        ## type 21
        > Parse s [21] SELECT $1 AS v
        > Bind - s [0] [-2] []
        > Execute - 0
        > Bind - s [1] [\xff\xfe] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row -2
        < done SELECT 1
        < bound
        < row -2
        < done SELECT 1
        < ready I
        ## type 23
        > Parse s [23] SELECT $1 AS v
        > Bind - s [0] [-2] []
        > Execute - 0
        > Bind - s [1] [\xff\xff\xff\xfe] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row -2
        < done SELECT 1
        < bound
        < row -2
        < done SELECT 1
        < ready I
        ## type 20
        > Parse s [20] SELECT $1 AS v
        > Bind - s [0] [-2] []
        > Execute - 0
        > Bind - s [1] [\xff\xff\xff\xff\xff\xff\xff\xfe] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row -2
        < done SELECT 1
        < bound
        < row -2
        < done SELECT 1
        < ready I
        ## type 700
        > Parse s [700] SELECT $1 AS v
        > Bind - s [0] [1.5] []
        > Execute - 0
        > Bind - s [1] [\x3f\xc0\0\0] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 1.5
        < done SELECT 1
        < bound
        < row 1.5
        < done SELECT 1
        < ready I
        ## type 701
        > Parse s [701] SELECT $1 AS v
        > Bind - s [0] [1.5] []
        > Execute - 0
        > Bind - s [1] [\x3f\xf8\0\0\0\0\0\0] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 1.5
        < done SELECT 1
        < bound
        < row 1.5
        < done SELECT 1
        < ready I
        ## type 1700
        > Parse s [1700] SELECT $1 AS v
        > Bind - s [0] [12.5] []
        > Execute - 0
        > Bind - s [1] [\0\x02\0\0\0\0\0\x01\0\x0c\x13\x88] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 12.5
        < done SELECT 1
        < bound
        < row 12.5
        < done SELECT 1
        < ready I
        ## type 25
        > Parse s [25] SELECT $1 AS v
        > Bind - s [0] [a b] []
        > Execute - 0
        > Bind - s [1] [a b] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row a b
        < done SELECT 1
        < bound
        < row a b
        < done SELECT 1
        < ready I
        ## type 1043
        > Parse s [1043] SELECT $1 AS v
        > Bind - s [0] [a b] []
        > Execute - 0
        > Bind - s [1] [a b] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row a b
        < done SELECT 1
        < bound
        < row a b
        < done SELECT 1
        < ready I
        ## type 2950
        > Parse s [2950] SELECT $1 AS v
        > Bind - s [0] [11111111-2222-3333-4444-555555555555] []
        > Execute - 0
        > Bind - s [1] [\x11\x11\x11\x11\x22\x22\x33\x33\x44\x44\x55\x55\x55\x55\x55\x55] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 11111111-2222-3333-4444-555555555555
        < done SELECT 1
        < bound
        < row 11111111-2222-3333-4444-555555555555
        < done SELECT 1
        < ready I
        ## type 1114
        > Parse s [1114] SELECT $1 AS v
        > Bind - s [0] [2000-01-01 00:00:01] []
        > Execute - 0
        > Bind - s [1] [\0\0\0\0\0\x0f\x42\x40] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 2000-01-01 00:00:01
        < done SELECT 1
        < bound
        < row 2000-01-01 00:00:01
        < done SELECT 1
        < ready I
        ## type 1184
        > Parse s [1184] SELECT $1 AS v
        > Bind - s [0] [2000-01-01 00:00:01+01] []
        > Execute - 0
        > Bind - s [1] [\0\0\0\0\0\x0f\x42\x40] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 1999-12-31 23:00:01
        < done SELECT 1
        < bound
        < row 2000-01-01 00:00:01
        < done SELECT 1
        < ready I
        ## type 1082
        > Parse s [1082] SELECT $1 AS v
        > Bind - s [0] [2000-01-02] []
        > Execute - 0
        > Bind - s [1] [\0\0\0\x01] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row 2000-01-02
        < done SELECT 1
        < bound
        < row 2000-01-02
        < done SELECT 1
        < ready I
        ## type 17
        > Parse s [17] SELECT $1 AS v
        > Bind - s [0] [\\x00ff] []
        > Execute - 0
        > Bind - s [1] [\0\xff] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row \\x00ff
        < done SELECT 1
        < bound
        < row \\x00ff
        < done SELECT 1
        < ready I
        ## type 1007
        > Parse s [1007] SELECT $1 AS v
        > Bind - s [0] [{1,NULL,3}] []
        > Execute - 0
        > Bind - s [1] [\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\x04\0\0\0\x07] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row {1,NULL,3}
        < done SELECT 1
        < bound
        < row {7}
        < done SELECT 1
        < ready I
        ## type 1009
        > Parse s [1009] SELECT $1 AS v
        > Bind - s [0] [{a,"b c"}] []
        > Execute - 0
        > Bind - s [1] [\0\0\0\x01\0\0\0\0\0\0\0\x19\0\0\0\x01\0\0\0\x01\0\0\0\x01a] []
        > Execute - 0
        > Sync
        < parsed
        < bound
        < row {a,"b c"}
        < done SELECT 1
        < bound
        < row {a}
        < done SELECT 1
        < ready I
        "#,
    );
}

#[test]
fn values_that_their_type_does_not_have_are_refused() {
    converse(
        &[],
        r#"
        ## type 16
        > Parse s [16] SELECT $1 AS v
        > Bind - s [0] [maybe] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        ## type 21
        > Parse s [21] SELECT $1 AS v
        > Bind - s [1] [\0] []
        > Sync
        < parsed
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 23
        > Parse s [23] SELECT $1 AS v
        > Bind - s [0] [1.5] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Bind - s [1] [\0\0\0] []
        > Sync
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 20
        > Parse s [20] SELECT $1 AS v
        > Bind - s [1] [\0] []
        > Sync
        < parsed
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 701
        > Parse s [701] SELECT $1 AS v
        > Bind - s [0] [1,5] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Bind - s [1] [\0\0\0\0] []
        > Sync
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 1700
        > Parse s [1700] SELECT $1 AS v
        > Bind - s [0] [1.2.3] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Bind - s [1] [\0\x01] []
        > Sync
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 2950
        > Parse s [2950] SELECT $1 AS v
        > Bind - s [1] [\x11] []
        > Sync
        < parsed
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 1114
        > Parse s [1114] SELECT $1 AS v
        > Bind - s [1] [\0\0\0\0] []
        > Sync
        < parsed
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 1082
        > Parse s [1082] SELECT $1 AS v
        > Bind - s [1] [\0] []
        > Sync
        < parsed
        < error 22P03 incorrect binary data in parameter 1
        < ready I
        ## type 17
        > Parse s [17] SELECT $1 AS v
        > Bind - s [0] [\\xzz] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a bytea
        < ready I
        ## type 1007
        > Parse s [1007] SELECT $1 AS v
        > Bind - s [0] [{1,2] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is no array
        < ready I
        > Bind - s [1] [\0\0\0\x01] []
        > Sync
        < error 22P03 parameter 1 is no array
        < ready I
        ## type 1007
        > Parse s [1007] SELECT $1 AS v
        > Bind - s [0] [{a}] []
        > Sync
        < parsed
        < error 22P02 parameter 1 is not a value of its type
        < ready I
        > Bind - s [1] [\0\0\0\x07\0\0\0\0\0\0\0\x17] []
        > Sync
        < error 54000 parameter 1 is an array of more than 6 dimensions, the most
        < ready I
        "#,
    );
}
