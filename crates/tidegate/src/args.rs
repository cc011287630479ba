//! Command-line arguments as plain values, each checked only as far as one value can be checked
//! alone; the modules that use them decide their meaning.
//!
//! Not here: the environment variables `TIDEGATE_DB` for `--db` and `TIDEGATE_URL` for `--url`
//! (`environment`).

use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_model::{ByteCount, PartitionUnit};
use tidegate_query::{Role, Timeout};

use crate::output::Format;
use crate::progress::ProgressStyle;

/// Default database directory, used if neither `--db` nor `TIDEGATE_DB` names one.
const DB_DEFAULT: &str = "./tidegate-data";
/// Default database directory of `demo`: its own, so that `demo` never touches the user's data.
const DB_DEMO: &str = "./tidegate-demo";

const EXIT_CODES: &str = "\
Exit codes:
   0  success; an import stored every row and every cell
   1  failed; the statement or import that failed has changed nothing
   2  an option, argument or configuration key is unknown or invalid, or a port is in use
   3  the database is in use by another process
   4  the database has a newer format than this program supports
   5  the database is damaged
  10  imported, but some rows were rejected or some cells became NULL; see the rejects file
  70  an internal error
 130  interrupted; nothing was changed

Examples:
  tidegate demo
  tidegate import hits.csv --table hits --timestamp EventTime --partition-by day
  tidegate sql \"SELECT count(*) FROM hits\"";

const IMPORT_EXAMPLES: &str = "\
Examples:
  tidegate import hits.csv --table hits --timestamp EventTime --partition-by day
  tidegate import 'trips-*.parquet' --table trips --timestamp pickup --symbols vendor,zone
  zcat log.csv.gz | tidegate import - --table log --header --on-error abort
  tidegate import hits.csv --table hits --schema hits.sql --no-header

A table that does not exist is created, with the columns of the files or of --schema. All rows are
committed together, or none are. Files can be compressed with gzip or zstd, and their rows can be in
any order.";

const SQL_EXAMPLES: &str = "\
Examples:
  tidegate sql                                       # a prompt, on a terminal
  tidegate sql \"SELECT count(*) FROM hits; SHOW TABLES\"
  tidegate sql -f report.sql --format csv --output report.csv
  tidegate sql \"SELECT * FROM hits\" --format parquet --output hits.parquet
  tidegate sql \"SELECT count(*) FROM hits\" --repeat 9 --timings
  tidegate sql --url postgres://admin@127.0.0.1:8812 # the database of a server

The password of --url comes from the URL, from PGPASSWORD, or from a question at the terminal.";

const SERVE_EXAMPLES: &str = "\
Examples:
  tidegate serve
  tidegate serve --http 127.0.0.1:9100 --ilp none
  tidegate serve --set ilp.tcp.commit_interval=250ms --set ilp.create_columns=false
  curl -d 'cpu,host=a usage=0.5' http://127.0.0.1:9000/write
  curl -G http://127.0.0.1:9000/exec --data-urlencode 'query=SELECT * FROM cpu'

Every key can also be set in the environment (ilp.tcp.commit_rows is TIDEGATE_ILP_TCP_COMMIT_ROWS)
and in a TOML file. The command line takes precedence over the environment, and the environment over
the file. `tidegate config print` shows all keys; pg.listen is the address of PostgreSQL's protocol.
SIGTERM and Ctrl-C stop the server after it has committed the rows that it has read.";

const USER_EXAMPLES: &str = "\
Examples:
  tidegate user add ann --role writer                # asks for the password
  tidegate user add grafana --role reader < password.txt

An admin has all privileges. A writer reads, inserts, updates and deletes rows, and creates tables
and columns by /write, /imp and COPY FROM STDIN. A reader reads.
A running server notices the change at once.";

const TOKEN_EXAMPLES: &str = "\
Examples:
  tidegate user token ann --expires 90d
  tidegate user token list
  tidegate user token revoke 5f0c33a1

A token is printed once. It gives the privileges of its user over HTTP, in the header field
Authorization: Bearer TOKEN.";

/// A time-series database: imports files and streams, answers SQL
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Directory of the database [env: TIDEGATE_DB] [default: ./tidegate-data; demo uses
    /// ./tidegate-demo and ignores TIDEGATE_DB]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Import CSV or Parquet files into a table
    Import(ImportArguments),
    /// Run SQL statements, or open a prompt
    Sql(SqlArguments),
    /// List the tables
    Tables(ListArguments),
    /// Show the columns of a table and how they are stored
    Describe(DescribeArguments),
    /// Read every byte of the database and check it
    Verify(VerifyArguments),
    /// Serve SQL over PostgreSQL's protocol and HTTP, and the line protocol over HTTP and TCP
    Serve(ServeArguments),
    /// Manage the users of the server and their tokens
    #[command(subcommand)]
    User(UserCommand),
    /// Check or print the configuration that `serve` would use
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure the memory bandwidth and the disk of this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Generate rows, import them into ./tidegate-demo, and run five queries
    Demo(DemoArguments),
}

#[derive(Args, Debug)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArguments {
    /// Files, patterns with *, ? and [...], or - for standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Table that receives the rows; it is created if it does not exist
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) table: String,
    /// Column by which a new table is ordered and partitioned
    #[arg(long, value_name = "COLUMN")]
    pub(crate) timestamp: Option<String>,
    /// Partitions of a new table: none, hour, day, week, month or year
    #[arg(long, value_name = "UNIT", value_parser = parse_unit)]
    pub(crate) partition_by: Option<PartitionUnit>,
    /// Text columns of a new table with few distinct values
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) symbols: Vec<String>,
    /// Columns of the files to leave out
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) skip_columns: Vec<String>,
    /// File with the CREATE TABLE statement of a new table
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Format of the files; auto detects it from their first bytes
    #[arg(long, value_enum, default_value_t = FileKind::Auto)]
    pub(crate) format: FileKind,
    #[command(flatten)]
    pub(crate) dialect: DialectArguments,
    /// Pattern of timestamps, such as 'dd.MM.yyyy HH:mm:ss' or epoch_ms
    #[arg(long, value_name = "PATTERN", value_parser = parse_timestamp_format)]
    pub(crate) timestamp_format: Option<TimestampFormat>,
    /// Treatment of a row with a bad cell
    #[arg(long, value_enum, default_value_t = OnErrorArgument::SkipRow)]
    pub(crate) on_error: OnErrorArgument,
    /// Fail if more than N rows (with --on-error null: rows and cells) are rejected
    #[arg(long, value_name = "N")]
    pub(crate) max_errors: Option<u64>,
    /// File for rejected rows [default: TABLE.rejects.ndjson]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Memory for rows during the import, such as 1GiB; at least 32MiB [default: a quarter of RAM]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<ByteCount>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Method of reading and writing files
    #[arg(long, value_enum, default_value_t = IoArgument::Auto)]
    pub(crate) io: IoArgument,
    /// Progress display during the import
    #[arg(long, value_enum, default_value_t = ProgressStyle::Auto)]
    pub(crate) progress: ProgressStyle,
}

/// Dialect of text files: the arguments that describe delimiter, quotes, header and NULL.
#[derive(Args, Debug)]
#[command(next_help_heading = "CSV options")]
pub(crate) struct DialectArguments {
    /// Byte between fields, or tab [default: detected among , ; tab |]
    #[arg(long, value_name = "BYTE", value_parser = parse_byte)]
    pub(crate) delimiter: Option<u8>,
    /// Byte around fields, or none [default: ", or detected to be none]
    #[arg(long, value_name = "BYTE", value_parser = parse_quote)]
    pub(crate) quote: Option<Quote>,
    /// The first line has the column names [default: detected]
    #[arg(long, conflicts_with = "no_header")]
    pub(crate) header: bool,
    /// The first line is a row
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Unquoted text that means NULL, besides the empty field
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) null: Option<String>,
    /// Lines to skip at the start of each file
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip_lines: u64,
}

#[derive(Args, Debug)]
#[command(after_help = SQL_EXAMPLES)]
pub(crate) struct SqlArguments {
    /// Statements, separated by ; [default: standard input, or a prompt]
    #[arg(conflicts_with = "file")]
    pub(crate) statement: Option<String>,
    /// Read the statements from a file
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Output format of results
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Write results to a file, which appears when it is complete
    #[arg(long, value_name = "FILE", conflicts_with = "timings")]
    pub(crate) output: Option<PathBuf>,
    /// Number of runs of the statement
    #[arg(long, value_name = "N", requires = "timings")]
    pub(crate) repeat: Option<NonZeroUsize>,
    /// Print times as JSON instead of rows; each run plans the statement and reads all rows
    #[arg(long)]
    pub(crate) timings: bool,
    /// Time limit of a statement, such as 500ms, 5s, 2m, or none [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Timeout>,
    /// Run the statements at a server instead of opening the database:
    /// postgres://USER@HOST:PORT, with ?sslmode=require for TLS [env: TIDEGATE_URL, unless --db is
    /// given]
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) url: Option<ServerUrl>,
    #[command(flatten)]
    pub(crate) resources: ResourceArguments,
}

/// The address of a server. It may contain a password, so `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct ServerUrl(pub(crate) String);

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerUrl(..)")
    }
}

/// Resource limits of queries.
#[derive(Args, Debug)]
pub(crate) struct ResourceArguments {
    /// Memory for queries before they spill, such as 1GiB [default: half of RAM]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<ByteCount>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and report its errors
    Check(ConfigArguments),
    /// Print all keys as a configuration file, each with the source of its value
    Print(ConfigArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; the password is asked for, or read from standard input
    #[command(after_help = USER_EXAMPLES)]
    Add {
        /// Name of the user
        name: String,
        /// Role of the user: admin, writer or reader
        #[arg(long, value_parser = parse_role)]
        role: Role,
    },
    /// Give a user another password
    Passwd {
        /// Name of the user
        name: String,
    },
    /// List users
    List(ListArguments),
    /// Remove a user, and the user's tokens
    Remove {
        /// Name of the user
        name: String,
    },
    /// Create a token for a user, list tokens, or revoke one
    #[command(args_conflicts_with_subcommands = true, after_help = TOKEN_EXAMPLES)]
    Token(UserTokenArguments),
}

#[derive(Args, Debug)]
pub(crate) struct UserTokenArguments {
    #[command(subcommand)]
    pub(crate) command: Option<TokenCommand>,
    /// Name of the user
    pub(crate) name: Option<String>,
    /// Validity of the token, such as 90d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_validity)]
    pub(crate) expires: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List tokens with their users and expiry, without the secret part
    List(ListArguments),
    /// Revoke a token
    Revoke {
        /// Id of the token, as shown by `list`
        id: String,
    },
}

#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Threads for queries and for the network [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// Configuration arguments. They stay text because the environment and the file may set the same
/// keys, and one place checks the values of all three.
#[derive(Args, Debug, Default)]
pub(crate) struct ConfigArguments {
    /// Configuration file [default: conf/tidegate.toml in the directory of the database, if it
    /// exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of HTTP, or none [default: 127.0.0.1:9000]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Address of the line protocol over TCP, or none [default: 127.0.0.1:9009]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ilp: Option<String>,
    /// Address of a listener for health and metrics only [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// Memory of the whole process, such as 4GiB [default: 70 % of RAM]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Value of any configuration key; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Output format of the list
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Repair a damaged log: give up the damaged commits, keep those behind the damage, and keep
    /// the bytes of both
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DescribeArguments {
    /// Name of the table
    pub(crate) table: String,
    /// Output format of the columns
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure the maximum rates of memory and disk, to compare imports and queries with
    Roofline(RooflineArguments),
}

#[derive(Args, Debug)]
pub(crate) struct RooflineArguments {
    /// Memory that each loop reads or writes; less than 1GiB may measure the cache
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub(crate) memory: ByteCount,
    /// Size of the file that is written and read
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub(crate) file: ByteCount,
    /// Directory of that file, which is removed afterwards [default: that of the database]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Number of threads, measured besides one thread [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Number of rows
    #[arg(long, value_name = "N", default_value_t = 3_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Keep the CSV file
    #[arg(long)]
    pub(crate) keep: bool,
    /// Directory of the CSV file [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileKind {
    Auto,
    Csv,
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArgument {
    /// The import fails
    Abort,
    /// The row goes to the rejects file
    SkipRow,
    /// The cell becomes NULL, the row stays
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoArgument {
    /// io_uring if it is available, otherwise pread and pwrite
    Auto,
    /// io_uring; fails if it is not available
    Uring,
    /// pread and pwrite
    Sync,
}

/// The quote byte of fields, or none. It is a type of its own because clap treats a field of type
/// `Option` as an optional argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote(pub(crate) Option<u8>);

impl Arguments {
    /// Sets the server that `sql` asks from `TIDEGATE_URL`, unless an argument names a server or a
    /// database.
    pub(crate) fn url_or(&mut self, from_environment: Option<String>) {
        if let Command::Sql(sql) = &mut self.command
            && self.db.is_none()
            && sql.url.is_none()
        {
            sql.url = from_environment.map(ServerUrl);
        }
    }

    /// Returns the database directory: `--db`, else the environment variable, else a default.
    pub(crate) fn db_or(&self, from_environment: Option<PathBuf>) -> PathBuf {
        let is_demo = matches!(self.command, Command::Demo(_));
        let default = if is_demo { DB_DEMO } else { DB_DEFAULT };
        // `demo` drops and creates a table, so only an explicit `--db` changes its database.
        let from_environment = from_environment.filter(|_| !is_demo);
        self.db.clone().or(from_environment).unwrap_or_else(|| PathBuf::from(default))
    }
}

impl UserCommand {
    fn name(&self) -> &'static str {
        match self {
            UserCommand::Add { .. } => "user add",
            UserCommand::Passwd { .. } => "user passwd",
            UserCommand::List(_) => "user list",
            UserCommand::Remove { .. } => "user remove",
            UserCommand::Token(_) => "user token",
        }
    }
}

impl Command {
    /// Returns the name of the command.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Import(_) => "import",
            Command::Sql(_) => "sql",
            Command::Tables(_) => "tables",
            Command::Describe(_) => "describe",
            Command::Verify(_) => "verify",
            Command::Serve(_) => "serve",
            Command::User(command) => command.name(),
            Command::Config(ConfigCommand::Check(_)) => "config check",
            Command::Config(ConfigCommand::Print(_)) => "config print",
            Command::Bench(BenchCommand::Roofline(_)) => "bench roofline",
            Command::Demo(_) => "demo",
        }
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("the name is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "not admin, writer or reader".to_owned())
}

/// Parses a validity into seconds, at most a hundred years.
fn parse_validity(text: &str) -> Result<i64, String> {
    const SECONDS_MAX: i64 = 100 * 366 * 86_400;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    let seconds = number.parse::<i64>().ok().zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| "not a time such as 12h or 90d".to_owned())
}

fn parse_unit(text: &str) -> Result<PartitionUnit, String> {
    PartitionUnit::parse(text).ok_or_else(|| "not none, hour, day, week, month or year".to_owned())
}

fn parse_size(text: &str) -> Result<ByteCount, String> {
    let size = ByteCount::parse(text).filter(|size| size.0 > 0);
    size.ok_or_else(|| "not a size such as 512MiB or 2GiB".to_owned())
}

/// Accepts any text: clap shows a refused argument in its message, and this one may contain a
/// password.
#[expect(clippy::unnecessary_wraps, reason = "clap wants it")]
fn parse_url(text: &str) -> Result<ServerUrl, Infallible> {
    Ok(ServerUrl(text.to_owned()))
}

/// Parses a number with a unit, or `none`.
fn parse_timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" {
        return Ok(Timeout::Never);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let millis = number.parse::<u64>().ok().filter(|&number| number > 0);
    let millis = millis.zip(unit_ms).and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    let timeout = millis.map(|millis| Timeout::After(Duration::from_millis(millis)));
    timeout.ok_or_else(|| "not a time such as 500ms, 5s, 2m or 1h, nor none".to_owned())
}

fn parse_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" || text == "\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ if !text.is_ascii() => Err("not ASCII: only one ASCII character is accepted".to_owned()),
        bytes if bytes.len() > 1 => Err(format!("it has {} bytes, not one", bytes.len())),
        _ => Err("not one ASCII character, or a line end".to_owned()),
    }
}

fn parse_quote(text: &str) -> Result<Quote, String> {
    if text == "none" { Ok(Quote(None)) } else { parse_byte(text).map(|byte| Quote(Some(byte))) }
}

fn parse_timestamp_format(text: &str) -> Result<TimestampFormat, String> {
    TimestampFormat::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = std::iter::once("tidegate").chain(line.split_whitespace());
        Arguments::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn clap_finds_no_fault_with_the_definitions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_command_line_of_a_benchmark_is_understood() {
        let line = "--db d import x.csv --table hits --no-header --progress none";
        let arguments = parse(line).unwrap();
        assert_eq!(arguments.db_or(Some("env".into())), PathBuf::from("d"));
        let Command::Import(import) = arguments.command else { panic!("import") };
        assert!(import.dialect.no_header && !import.dialect.header);
        assert_eq!(import.progress, ProgressStyle::None);
        assert_eq!(import.dialect.quote, None);
    }

    #[test]
    fn the_database_is_typed_or_set_or_default() {
        let tables = parse("tables").unwrap();
        assert_eq!(tables.db_or(Some("env".into())), PathBuf::from("env"));
        assert_eq!(tables.db_or(None), PathBuf::from(DB_DEFAULT));
        let demo = parse("demo").unwrap();
        assert_eq!(demo.db_or(Some("env".into())), PathBuf::from(DB_DEMO));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "",
            "nonsense",
            "import --table t",
            "import x.csv",
            "import x.csv --table t --delimiter ab",
            "import x.csv --table t --partition-by decade",
            "import x.csv --table t --memory lots",
            "import x.csv --table t --threads 0",
            "import x.csv --table t --header --no-header",
            "import x.csv --table t --on-error ignore",
            "sql --repeat 3 x",
            "sql x -f y",
            "bench",
            "bench roofline --memory 0B",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn bytes_are_typed_as_themselves_or_by_name() {
        assert_eq!(parse_byte("tab"), Ok(b'\t'));
        assert_eq!(parse_byte("\\t"), Ok(b'\t'));
        assert_eq!(parse_byte("|"), Ok(b'|'));
        assert!(parse_byte("\u{a7}").is_err() && parse_byte("").is_err());
        assert_eq!(parse_quote("none"), Ok(Quote(None)));
    }

    #[test]
    fn timeouts_have_a_unit() {
        for (text, millis) in [("500ms", 500), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000)] {
            let expected = Timeout::After(Duration::from_millis(millis));
            assert_eq!(parse_timeout(text), Ok(expected), "{text}");
        }
        assert_eq!(parse_timeout("none"), Ok(Timeout::Never));
        for text in ["", "5", "0s", "-1s", "5 s", "5d", "1.5s", "99999999999999999999s", "s"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
