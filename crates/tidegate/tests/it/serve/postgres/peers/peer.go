package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	address := url.URL{Scheme: "postgres", User: url.UserPassword("admin", os.Args[2]),
		Host: "127.0.0.1:" + os.Args[1], Path: "/test"}
	for _, mode := range []string{"cache_statement", "describe_exec", "exec", "simple_protocol"} {
		config, err := pgx.ParseConfig(address.String() + "?default_query_exec_mode=" + mode)
		must(err)
		db, err := pgx.ConnectConfig(ctx, config)
		must(err)
		_, err = db.Exec(ctx, "TRUNCATE TABLE t")
		must(err)
		at := time.Date(2025, 3, 1, 1, 2, 3, 4000, time.UTC)
		tag, err := db.Exec(ctx, "INSERT INTO t (ts, s, v, n) VALUES ($1, $2, $3, $4)", at, "oslo", 0.5, 7)
		must(err)
		if tag.String() != "INSERT 0 1" {
			panic(tag.String())
		}
		var found time.Time
		var number int32
		var value *float64
		query := "SELECT ts, n, v FROM t WHERE s = $1 AND n < $2"
		must(db.QueryRow(ctx, query, "oslo", 8).Scan(&found, &number, &value))
		if !found.Equal(at) || number != 7 || *value != 0.5 {
			panic(fmt.Sprint(found, number, *value))
		}
		batch := &pgx.Batch{}
		for n := 0; n < 10; n++ {
			batch.Queue("SELECT $1::bigint", int64(n))
		}
		results := db.SendBatch(ctx, batch)
		for n := int64(0); n < 10; n++ {
			var got int64
			must(results.QueryRow().Scan(&got))
			if got != n {
				panic(got)
			}
		}
		must(results.Close())
		_, err = db.Exec(ctx, "SELECT 1/0")
		var failed *pgconn.PgError
		if !errors.As(err, &failed) || failed.Code != "22012" {
			panic(err)
		}
		transaction, err := db.Begin(ctx)
		must(err)
		_, err = transaction.Exec(ctx, "INSERT INTO t (ts, s) VALUES ('2026-01-01', 'gone')")
		must(err)
		must(transaction.Rollback(ctx))
		var count int64
		must(db.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&count))
		if count != 1 {
			panic(count)
		}
		must(db.Close(ctx))
	}
	fmt.Println("done")
}
