import java.math.BigDecimal;
import java.sql.*;
import java.util.*;

public class Peer {
    static void check(boolean is, String what) {
        if (!is) throw new RuntimeException(what);
    }

    public static void main(String[] args) throws Exception {
        for (String options : List.of("prepareThreshold=1", "prepareThreshold=0", "preferQueryMode=simple")) {
            run(args[0], args[1], options);
        }
        System.out.println("done");
    }

    static void run(String port, String password, String options) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + port + "/test?" + options;
        try (Connection db = DriverManager.getConnection(url, "admin", password)) {
            Statement statement = db.createStatement();
            statement.execute("TRUNCATE TABLE t");
            String insert = "INSERT INTO t (ts, s, v, n, d, ok) VALUES (?, ?, ?, ?, ?, ?)";
            try (PreparedStatement write = db.prepareStatement(insert)) {
                for (int row = 0; row < 20; row++) {
                    write.setTimestamp(1, Timestamp.valueOf("2025-03-01 00:00:" + (10 + row)));
                    write.setString(2, "s" + row % 2);
                    write.setDouble(3, row / 2.0);
                    write.setInt(4, row);
                    write.setBigDecimal(5, new BigDecimal("12.500"));
                    write.setBoolean(6, row % 2 == 0);
                    write.addBatch();
                }
                check(write.executeBatch().length == 20, "20 statements");
            }
            try (PreparedStatement read = db.prepareStatement("SELECT * FROM t WHERE v >= ? AND s = ?")) {
                for (int again = 0; again < 3; again++) {
                    read.setDouble(1, 5.0);
                    read.setString(2, "s1");
                    ResultSet rows = read.executeQuery();
                    int count = 0;
                    while (rows.next()) {
                        count++;
                        check(rows.getBigDecimal("d").equals(new BigDecimal("12.500")), "d");
                        check(rows.getInt("n") % 2 == 1 && !rows.getBoolean("ok"), "n, ok");
                        check(rows.getTimestamp("ts").toString().startsWith("2025-03-01"), "ts");
                        rows.getString("g");
                        check(rows.wasNull(), "null");
                    }
                    check(count == 5, "5 rows, not " + count);
                }
            }
            if (!options.contains("simple")) {
                ResultSet plain = statement.executeQuery(
                    "SELECT a.s AS place, a.v + 1, (SELECT 1) FROM (SELECT * FROM t WHERE n > 0) a");
                org.postgresql.PGResultSetMetaData columns =
                    plain.getMetaData().unwrap(org.postgresql.PGResultSetMetaData.class);
                check(plain.getMetaData().getTableName(1).equals("t"), "the table of a column");
                check(columns.getBaseColumnName(1).equals("s"), "the name of a column in its table");
                check(columns.getBaseTableName(2).equals(""), "an expression is of no table");
                check(columns.getBaseTableName(3).equals(""), "a subquery is of no table");
            }
            db.setAutoCommit(false);
            Statement far = db.createStatement();
            far.setFetchSize(100);
            ResultSet rows = far.executeQuery("SELECT x FROM long_sequence(1000)");
            long sum = 0;
            while (rows.next()) sum += rows.getLong(1);
            check(sum == 500500, "the sum of 1000 rows");
            statement.executeUpdate("INSERT INTO t (ts, s) VALUES ('2026-01-01', 'gone')");
            db.rollback();
            db.setAutoCommit(true);
            rows = statement.executeQuery("SELECT count(*) FROM t WHERE s = 'gone'");
            check(rows.next() && rows.getInt(1) == 0, "rolled back");
            try {
                statement.executeQuery("SELECT nope FROM t");
                check(false, "a column was found");
            } catch (SQLException error) {
                check(error.getSQLState().equals("42703"), error.getSQLState());
            }
            DatabaseMetaData meta = db.getMetaData();
            check(meta.getDatabaseProductVersion().startsWith("16"), "version");
            ResultSet tables = meta.getTables(null, "public", "%", new String[] {"TABLE"});
            check(tables.next() && tables.getString("TABLE_NAME").equals("t"), "tables");
            ResultSet columns = meta.getColumns(null, "public", "t", "%");
            List<String> names = new ArrayList<>();
            while (columns.next()) names.add(columns.getString("COLUMN_NAME"));
            check(names.size() == 9 && names.get(0).equals("ts"), names.toString());
        }
    }
}
