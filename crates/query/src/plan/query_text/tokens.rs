//! Expansion of short forms before parsing: `t WHERE ..`, `TABLE t`.
//!
//! Tokens are added and none is moved (`query_text`).

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{Error, Result, SyntaxError};
use crate::position::position_at;

/// Puts brackets around items of ROLLUP, CUBE and GROUPING SETS that begin with a bracket and go on
/// behind it, `ROLLUP ((a)::date)`: sqlparser takes that bracket for a list of columns.
pub(super) fn bracket_set_items(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let next = |from: usize| (from..tokens.len()).find(|&at| !is_blank(&tokens[at]));
        let is_word =
            matches!(keyword(&tokens[at]), Some(Keyword::ROLLUP | Keyword::CUBE | Keyword::SETS));
        let open = next(at + 1).filter(|&at| is_word && tokens[at].token == Token::LParen);
        at += 1;
        let mut item = open.and_then(|open| next(open + 1));
        while let Some(start) = item {
            let Some(end) = item_end(&tokens[start..]).map(|length| start + length) else { break };
            let is_last = tokens[end].token == Token::RParen;
            let mut end = end;
            if tokens[start].token == Token::LParen
                && let Some(close) = closing(&tokens[start..]).map(|length| start + length)
                && (close + 1..end).any(|at| !is_blank(&tokens[at]))
            {
                let (first, last) = (tokens[start].span, tokens[end].span);
                tokens.insert(end, TokenWithSpan::new(Token::RParen, last));
                tokens.insert(start, TokenWithSpan::new(Token::LParen, first));
                end += 2;
            }
            let next = (end + 1..tokens.len()).find(|&at| !is_blank(&tokens[at]));
            item = next.filter(|_| !is_last);
        }
    }
}

/// Returns the position of the comma or the bracket that ends the first item of a list.
fn item_end(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| match token.token {
        Token::LParen | Token::LBracket => {
            depth += 1;
            false
        }
        Token::RParen | Token::RBracket if depth > 0 => {
            depth -= 1;
            false
        }
        Token::RParen | Token::Comma => depth == 0,
        _ => false,
    })
}

/// Puts `SELECT * FROM` before `t`, `t WHERE ..` and `(query) WHERE ..`, and `SELECT *` before a
/// `FROM` that has no SELECT.
pub(super) fn select_everything(tokens: &mut Vec<TokenWithSpan>) {
    let Some(first) = tokens.iter().position(|token| !is_blank(token)) else { return };
    let rest = &tokens[first..];
    let is_from = keyword(&rest[0]) == Some(Keyword::FROM);
    let added: &[Token] = match (is_from, has_outer_select(rest)) {
        (true, true) => return,
        (true, false) => &[Token::make_keyword("SELECT"), Token::Mul],
        (false, _) if is_short_form(rest) => {
            &[Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")]
        }
        _ => return,
    };
    let start = rest[0].span.start;
    let at_start = |token: &Token| TokenWithSpan::new(token.clone(), Span::new(start, start));
    let added = added.iter().map(at_start).collect::<Vec<_>>();
    tokens.splice(first..first, added);
}

/// Does the same in brackets that may hold a query: `FROM (t WHERE ..)`, `x IN (t LIMIT -3)`.
pub(super) fn select_everything_inside(tokens: &mut Vec<TokenWithSpan>) {
    let mut before: Option<Token> = None;
    // For each open bracket, true if a WINDOW clause has begun in it: `AS (w ORDER BY x)` is no
    // query there.
    let mut windows = vec![false];
    let mut at = 0;
    while at < tokens.len() {
        if is_blank(&tokens[at]) {
            at += 1;
            continue;
        }
        let is_window = windows.last() == Some(&true);
        match (&tokens[at].token, keyword(&tokens[at]), windows.last_mut()) {
            (Token::LParen, ..) => windows.push(false),
            (Token::RParen, ..) => drop(windows.pop()),
            (_, Some(Keyword::WINDOW), Some(begun)) => *begun = true,
            (_, Some(Keyword::SELECT | Keyword::FROM | Keyword::WITH), Some(begun)) => {
                *begun = false;
            }
            _ => {}
        }
        let is_open = tokens[at].token == Token::LParen;
        let can_be_query = match &before {
            None | Some(Token::LParen | Token::Comma) => true,
            Some(Token::Word(word)) if word.quote_style.is_none() => match word.keyword {
                Keyword::AS => !is_window,
                Keyword::FROM | Keyword::JOIN | Keyword::IN | Keyword::EXISTS => true,
                _ => false,
            },
            _ => false,
        };
        before = Some(tokens[at].token.clone());
        at += 1;
        if !is_open || !can_be_query {
            continue;
        }
        let Some(first) = (at..tokens.len()).find(|&at| !is_blank(&tokens[at])) else { return };
        let Some(close) = closing(&tokens[at - 1..]) else { return };
        let inside = &tokens[first..(at - 1 + close).max(first)];
        // A name alone is a value, and `(a JOIN b ..)` no query.
        if has_clause(inside, &["WHERE", "LATEST", "SAMPLE", "ORDER", "LIMIT"]) {
            let start = tokens[first].span.start;
            let added = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            let added = added.map(|token| TokenWithSpan::new(token, Span::new(start, start)));
            tokens.splice(first..first, added);
        }
    }
}

/// Puts `SELECT * FROM t` in place of `TABLE t`, and removes `[NOT] MATERIALIZED` behind the AS of
/// a WITH: a query of WITH is executed at each place that reads it.
pub(super) fn read_other_words(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let next = |from: usize| (from..tokens.len()).find(|&at| !is_blank(&tokens[at]));
        let is_word = |at: usize, word: &str| {
            matches!(&tokens[at].token, Token::Word(it)
                if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word))
        };
        let before = tokens[..at].iter().rev().find(|token| !is_blank(token));
        let opens = before.is_none_or(|before| match &before.token {
            Token::LParen => true,
            Token::Word(word) => matches!(
                word.keyword,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::ALL
            ),
            _ => false,
        });
        if opens
            && keyword(&tokens[at]) == Some(Keyword::TABLE)
            && let Some(name) = next(at + 1)
            && matches!(tokens[name].token, Token::Word(_))
        {
            let span = tokens[at].span;
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            let words = words.map(|token| TokenWithSpan::new(token, span));
            tokens.splice(at..=at, words);
        } else if keyword(&tokens[at]) == Some(Keyword::AS)
            && let Some(first) = next(at + 1)
        {
            let not = is_word(first, "NOT").then_some(first);
            let word = if not.is_some() { next(first + 1) } else { Some(first) };
            if let Some(word) = word.filter(|&word| is_word(word, "MATERIALIZED"))
                && next(word + 1).is_some_and(|open| tokens[open].token == Token::LParen)
            {
                tokens.remove(word);
                if let Some(not) = not {
                    tokens.remove(not);
                }
            }
        }
        at += 1;
    }
}

/// Returns an error for a number with letters behind it, which would become its name: `10.5m`.
pub(super) fn check_numbers(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    for (at, pair) in tokens.windows(2).enumerate() {
        // `geohash(4c)` is a type, though not supported.
        let is_type = matches!(at.checked_sub(2).map(|at| &tokens[at].token),
            Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("geohash"));
        // `10m PRECEDING` is a length.
        let is_length = tokens[at + 2..]
            .iter()
            .find(|token| !is_blank(token))
            .is_some_and(|it| matches!(keyword(it), Some(Keyword::PRECEDING | Keyword::FOLLOWING)));
        if is_type || is_length {
            continue;
        }
        if let (Token::Number(digits, _), Token::Word(word)) = (&pair[0].token, &pair[1].token)
            && word.quote_style.is_none()
            && pair[0].span.end == pair[1].span.start
        {
            let position = position_at(sql, pair[0].span.start);
            let found = Some(format!("{digits}{}", word.value));
            let what = SyntaxError::Unexpected { expected: "a number".to_owned(), found };
            return Err(Error::Syntax { position, what });
        }
    }
    Ok(())
}

/// Returns true if there is a SELECT outside of brackets.
fn has_outer_select(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    tokens.iter().any(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && keyword(token) == Some(Keyword::SELECT)
    })
}

/// Returns true if the tokens are a name and one of these words behind it.
fn has_clause(tokens: &[TokenWithSpan], words: &[&str]) -> bool {
    let is_name = match tokens.first().map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        _ => false,
    };
    let after = || tokens[name_tokens(tokens)..].iter().find(|token| !is_blank(token));
    let is_it = |token: &TokenWithSpan| {
        let word = token.token.to_string();
        words.iter().any(|it| word.eq_ignore_ascii_case(it))
    };
    is_name && after().is_some_and(is_it)
}

/// Returns true if the tokens are `t`, `t WHERE ..`, `(query) WHERE ..` or a similar form.
fn is_short_form(tokens: &[TokenWithSpan]) -> bool {
    let is_name = match &tokens[0].token {
        // Keywords of SQL that are names of functions too.
        Token::Word(word) if matches!(word.keyword, Keyword::TABLES | Keyword::FUNCTIONS) => {
            name_tokens(tokens) > 1
        }
        Token::Word(word) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        _ => false,
    };
    let after = match tokens[0].token {
        Token::LParen => closing(tokens).map(|at| at + 1),
        _ if is_name => Some(name_tokens(tokens)),
        _ => None,
    };
    let Some(after) = after else { return false };
    let next = tokens[after..].iter().find(|token| !is_blank(token));
    let is_one_of = |words: &[&str]| {
        let word = next.map_or_else(String::new, |token| token.token.to_string());
        words.iter().any(|it| word.eq_ignore_ascii_case(it))
    };
    match next {
        None => is_name,
        // A query in brackets may have the other clauses itself.
        Some(_) => {
            is_one_of(&["WHERE", "LATEST", "SAMPLE", "ASOF", "LT"])
                || is_name && is_one_of(&["ORDER", "LIMIT", "JOIN", "LEFT", "INNER", "CROSS"])
        }
    }
}

/// Returns the number of tokens of `a`, `a.b` or `a(..)`.
fn name_tokens(tokens: &[TokenWithSpan]) -> usize {
    let has_schema = tokens.len() > 2
        && tokens[1].token == Token::Period
        && matches!(tokens[2].token, Token::Word(_));
    let is_call = tokens.get(1).is_some_and(|token| token.token == Token::LParen);
    match if is_call { closing(&tokens[1..]) } else { None } {
        Some(end) => end + 2,
        None if has_schema => 3,
        None => 1,
    }
}

/// Returns the position of the bracket that closes the first one.
fn closing(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}
