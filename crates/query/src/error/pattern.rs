//! Problems of patterns of LIKE and of regular expressions, as Arrow and DataFusion report them:
//! only in the text of an error, which one of their kernels classifies as internal.

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::ClauseProblem;

/// The beginning of DataFusion's message around Arrow's, for a constant pattern.
const MATCHED: &str = "failed to call 'regex_match_dyn_scalar' Compute error: ";
/// The beginnings of Arrow's messages.
const COMPILED: &str = "Regular expression did not compile: ";
const OF_LIKE: &str = "Unable to build regex from LIKE pattern: ";
/// The beginning of the message of the parser itself.
const PARSED: &str = "regex parse error:";

/// Returns the problem of a pattern, if the error is about one.
pub(super) fn pattern_problem(error: &DataFusionError) -> Option<ClauseProblem> {
    match error {
        DataFusionError::Internal(text) => {
            text.strip_prefix(MATCHED)?.strip_prefix(COMPILED).and_then(problem_in)
        }
        DataFusionError::ArrowError(problem, _) => match problem.as_ref() {
            ArrowError::ComputeError(text) => text.strip_prefix(COMPILED).and_then(problem_in),
            ArrowError::InvalidArgumentError(text) => {
                text.strip_prefix(OF_LIKE).and_then(problem_in)
            }
            ArrowError::ExternalError(foreign) => of_parser(&foreign.to_string()),
            _ => None,
        },
        DataFusionError::External(foreign) => of_parser(&foreign.to_string()),
        _ => None,
    }
}

fn of_parser(message: &str) -> Option<ClauseProblem> {
    message.strip_prefix(PARSED).and_then(problem_in)
}

/// Returns the problem in a message of the crate `regex`, in either of its forms.
fn problem_in(message: &str) -> Option<ClauseProblem> {
    let too_large = message.strip_prefix("CompiledTooBig(");
    let too_large =
        too_large.or_else(|| message.strip_prefix("Compiled regex exceeds size limit of "));
    if let Some(rest) = too_large {
        let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next()?;
        return Some(ClauseProblem::PatternTooLarge { bytes: digits.parse().ok()? });
    }
    // The pattern is quoted above its last line.
    let reason = message.lines().rev().find_map(|line| line.strip_prefix("error: "))?;
    Some(ClauseProblem::RegexpPattern { reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use crate::error::{Condition, Error};

    use super::*;

    // The kernel for constant patterns made an internal error of each of its errors, with a request
    // for a bug report; the others quoted the pattern between lines of tildes.
    #[test]
    fn problems_of_patterns_are_told_from_their_texts() {
        let check = |error: DataFusionError, expected: &str, condition: Condition| {
            let error = Error::from(error.context("evaluate"));
            assert_eq!((error.to_string().as_str(), error.condition()), (expected, condition));
        };
        let large = "a pattern is compiled to at most 10485760 bytes, and this one needs more: \
                     shorten it, or its counted repetitions";
        let arrow = |problem| DataFusionError::ArrowError(Box::new(problem), None);
        let compiled = format!("{COMPILED}CompiledTooBig(10485760)");
        let internal = DataFusionError::Internal(format!("{MATCHED}{compiled}"));
        check(internal, large, Condition::LimitExceeded);
        check(arrow(ArrowError::ComputeError(compiled)), large, Condition::LimitExceeded);
        let like = format!("{OF_LIKE}Compiled regex exceeds size limit of 10485760 bytes.");
        check(arrow(ArrowError::InvalidArgumentError(like)), large, Condition::LimitExceeded);
        let parsed = "regex parse error:\n    error: (\n           ^\nerror: unclosed group";
        let shown = "regex parse error: unclosed group";
        let syntax = format!("{COMPILED}Syntax(\n~~~\n{parsed}\n~~~\n)");
        let internal = DataFusionError::Internal(format!("{MATCHED}{syntax}"));
        check(internal, shown, Condition::InvalidPattern);
        check(arrow(ArrowError::ComputeError(syntax)), shown, Condition::InvalidPattern);
        check(DataFusionError::External(parsed.into()), shown, Condition::InvalidPattern);
        let other = DataFusionError::Internal("failed".to_owned());
        check(other, "internal error: failed", Condition::Internal);
    }
}
