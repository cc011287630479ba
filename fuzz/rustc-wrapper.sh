#!/usr/bin/env bash
# The compiler, without instrumentation for big crates that are not ours: instrumented, they take
# longer to build than a day's fuzzing. What is left out is only their own checks and coverage;
# allocations are watched in all of them, and generic code of theirs is instrumented where it is used.
rustc=$1
shift
name=
for ((i = 1; i <= $#; i++)); do
    [[ ${!i} == --crate-name ]] && { i=$((i + 1)); name=${!i}; break; }
done
# Targets of ours have the names of what they read, `parquet` is one of them.
[[ $* == *fuzz_targets/* ]] && name=
case $name in
    arrow* | parquet | brotli* | alloc_* | chrono | iana_time_zone | regex* | aho_corasick | num_* \
        | lexical_* | flatbuffers | half | zerocopy | ahash | twox_hash | libm | rustix | libc) ;;
    *) exec "$rustc" "$@" ;;
esac
kept=()
while (($#)); do
    flag=$1
    [[ $1 == -C && $# -gt 1 ]] && { flag=-C$2; }
    case $flag in
        -Cpasses=sancov* | -Cllvm-args=-sanitizer-* | -Cllvm-args=-simplifycfg-* | -Clink-dead-code \
            | -Zsanitizer=* | -Ccodegen-units=1) [[ $1 == -C ]] && shift ;;
        *) kept+=("$1") ;;
    esac
    shift
done
exec "$rustc" "${kept[@]}"
