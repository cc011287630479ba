const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const assert = require('assert');
const [port, password] = process.argv.slice(2);
const where = { host: '127.0.0.1', port: +port, user: 'admin', password, database: 'test' };

async function main() {
  const db = new Client(where);
  await db.connect();
  const done = await db.query('INSERT INTO t (ts, s, v, n, ok) VALUES ($1, $2, $3, $4, $5)',
    ['2025-03-01T01:02:03.004Z', 'oslo', 0.5, 7, true]);
  assert.strictEqual(done.rowCount, 1);
  const found = await db.query({ name: 'find', text: 'SELECT * FROM t WHERE s = $1 AND v >= $2', values: ['oslo', 0.5] });
  assert.deepStrictEqual([found.rows[0].n, found.rows[0].ok, found.rows[0].g], [7, true, null]);
  assert.strictEqual(found.fields.map((it) => it.dataTypeID).join(), '1114,1043,701,23,1700,2950,17,16,1082');
  // Parameters without a type in calculations: their results have the types of the description.
  const made = await db.query(
    'SELECT n + $1 AS a, v * $2 AS b, CASE WHEN v > $3 THEN $4 ELSE v END AS c, d + $5 AS d FROM t WHERE s = $6',
    [2, 3, 1, 0, '0.001', 'oslo']);
  assert.deepStrictEqual({ ...made.rows[0] }, { a: '9', b: 1.5, c: 0.5, d: null });
  const both = await db.query('SELECT 1 AS a; SELECT 2 AS b');
  assert.deepStrictEqual(both.map((it) => it.rows), [[{ a: '1' }], [{ b: '2' }]]);
  const cursor = db.query(new Cursor('SELECT x FROM long_sequence(100)'));
  assert.strictEqual((await cursor.read(30)).length, 30);
  await cursor.close();
  await assert.rejects(db.query('SELECT nope FROM t'), (error) => error.code === '42703' && error.position === '8');
  await db.query('BEGIN');
  await db.query('INSERT INTO t (ts, s) VALUES ($1, $2)', ['2026-01-01', 'gone']);
  await db.query('ROLLBACK');
  const gone = await db.query("SELECT count(*) AS n FROM t WHERE s = 'gone'");
  assert.strictEqual(gone.rows[0].n, '0');
  await db.end();
  const pool = new Pool({ ...where, max: 4 });
  const numbers = await Promise.all([...Array(20).keys()].map((n) => pool.query('SELECT $1::int AS n', [n])));
  assert.deepStrictEqual(numbers.map((it) => it.rows[0].n), [...Array(20).keys()]);
  await pool.end();
  console.log('done');
}
main().catch((error) => { console.error(error); process.exit(1); });
